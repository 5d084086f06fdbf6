"""Can this machine gate?"""
