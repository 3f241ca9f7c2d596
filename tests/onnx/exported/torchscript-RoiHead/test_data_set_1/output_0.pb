B51JPbß‰A†¡kA›?BÁ¯A}#nAW°Aj7«AÆ”«AÇV+AÓ
@óçÂA”®!A<£tA–4AÁB¯ÊAm!nA‡“¢?¥2ÅA†K†A