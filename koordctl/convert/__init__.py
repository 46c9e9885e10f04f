"""Command `koordctl convert`: write the limits of Mid pods into manifests, and profiles of Koordinator as policies."""
