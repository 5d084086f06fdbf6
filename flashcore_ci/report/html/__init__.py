"""Turn report and dossier into one HTML file that needs no network and no script."""
