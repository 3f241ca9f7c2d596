
BStatefulPartitionedCall:0J(@¿V=‘:¡=\>£">Q`>=9m=öØ9=_>l1¨=6ñÚ<