"""Quality of the statistics that scalers use: are they reliable, do they predict what more actors gain?"""
