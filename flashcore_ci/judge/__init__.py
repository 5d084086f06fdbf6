"""Pure: gate, evidence and waivers to verdict."""
