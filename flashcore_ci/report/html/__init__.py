"""Pure: report and dossier to one HTML file that needs no network and no script."""
