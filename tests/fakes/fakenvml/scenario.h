/* The scenario: a text file of "key = value" lines, named by FAKENVML_SCENARIO and read again at every question, so
 * that a test can break a card while the process under test runs. Replace it by rename(). The last line of a key wins;
 * '#' starts a comment. What the keys mean is said in fakenvml.c and faults.h. */
#ifndef SCENARIO_H
#define SCENARIO_H

enum { SCENARIO_TEXT_SIZE = 128 };

/* The value of the key, or the fallback, copied to `out` (SCENARIO_TEXT_SIZE bytes). Returns `out`. */
char *scenario_text(const char *key, const char *fallback, char *out);

/* The value as a number (decimal or 0x), or the fallback. */
unsigned long long scenario_number(const char *key, unsigned long long fallback);

/* The same for "<card>.<name>". */
char *scenario_card_text(int card, const char *name, const char *fallback, char *out);
unsigned long long scenario_card_number(int card, const char *name, unsigned long long fallback);

#endif
