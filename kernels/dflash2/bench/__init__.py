"""`dflash2 bench`: every op against its baseline and the roofline, with the prediction for a V100 beside it."""
