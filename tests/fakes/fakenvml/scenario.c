#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 256, KEY_SIZE = 96 };

static char *trimmed(char *text) {
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]))
        text[--length] = '\0';
    return text;
}

char *scenario_text(const char *key, const char *fallback, char *out) {
    snprintf(out, SCENARIO_TEXT_SIZE, "%s", fallback);
    const char *path = getenv("FAKENVML_SCENARIO");
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!file)
        return out;
    char line[LINE_SIZE];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "#")] = '\0';
        char *equals = strchr(line, '=');
        if (!equals)
            continue;
        *equals = '\0';
        if (strcmp(trimmed(line), key) == 0)
            snprintf(out, SCENARIO_TEXT_SIZE, "%.*s", SCENARIO_TEXT_SIZE - 1, trimmed(equals + 1));
    }
    fclose(file);
    return out;
}

unsigned long long scenario_number(const char *key, unsigned long long fallback) {
    char text[SCENARIO_TEXT_SIZE];
    scenario_text(key, "", text);
    return *text ? strtoull(text, NULL, 0) : fallback;
}

char *scenario_card_text(int card, const char *name, const char *fallback, char *out) {
    char key[KEY_SIZE];
    snprintf(key, sizeof key, "%d.%s", card, name);
    return scenario_text(key, fallback, out);
}

unsigned long long scenario_card_number(int card, const char *name, unsigned long long fallback) {
    char key[KEY_SIZE];
    snprintf(key, sizeof key, "%d.%s", card, name);
    return scenario_number(key, fallback);
}
