"""Turn report and dossier into one HTML file without scripts or network."""
