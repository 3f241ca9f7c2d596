module tccrt

go 1.18
