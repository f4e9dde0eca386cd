"""AWS for one laptop: a moto server, what ``template.yaml`` names, and an event pump."""
