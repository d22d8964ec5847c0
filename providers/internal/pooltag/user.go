package pooltag

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/gputrain/gputrain/providers/driver"
)

// UserWords returns a user's own tags as a list, for clouds whose tags are single words:
// "team=vision". Its error is of the kind driver.ErrInvalid: a list of words is separated by
// blanks or commas, so no word has one, and only a value has an equals sign.
func UserWords(tags map[string]string) (words []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		word := name + "=" + tags[name]
		separates := func(r rune) bool { return r == ',' || unicode.IsSpace(r) || unicode.IsControl(r) }
		if name == "" || strings.Contains(name, "=") || strings.ContainsFunc(word, separates) {
			return nil, fmt.Errorf("%w: the tag %q: this cloud's tags have no blanks and commas, and a name has no equals sign", driver.ErrInvalid, word)
		}
		words = append(words, word)
	}
	return words, nil
}
