"""Why an engine failed: rules over its log, and the words for each cause in both languages."""
