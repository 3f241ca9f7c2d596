BprobabilitiesJ0ลฺ่:๛l"?#Kบ>ุ#B<
L`>nไD?U•<ü>ำ7?zะด8.ÝR?ฏt4>