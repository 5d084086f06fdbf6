"""The self-test: does each gate fail on its defect?"""
