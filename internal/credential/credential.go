// Package credential recognizes credentials: environment variables that hold them, by their names, so that a pool can refuse to keep
// them in clear; known secrets, in all forms that texts have them in; and what has the form of a credential, or is where one is
// written, in texts that are sent to others.
package credential

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// IsNamed reports whether an environment variable with this name and value is a credential, as far as its name shows:
// its last word is one for a credential (HF_TOKEN, WANDB_API_KEY, PGPASSWORD), and the words before do not make it
// something else (PAD_TOKEN, PUBLIC_KEY). An empty value, a number, a truth value and the path of a file are none.
func IsNamed(name, value string) bool {
	words := split(name)
	for len(words) > 1 && slices.Contains(forms, words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	if len(words) == 0 || isHarmless(value) {
		return false
	}
	last, before := words[len(words)-1], ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	for _, k := range kinds {
		if k.matches(last, before) {
			return true
		}
	}
	return false
}

// forms are last words that say how a value is written, or which of several it is.
var forms = []string{"JSON", "PEM", "B64", "BASE64", "VALUE", ""}

// A kind is one word for a credential.
type kind struct {
	word string
	// joined reports that the word may also be the end of a longer one, as in PGPASSWORD.
	joined bool
	// after, if it is not nil, are the only words that make it a credential.
	after []string
	// not are words before it that make it something else.
	not []string
}

func (k kind) matches(last, before string) bool {
	switch {
	case last == k.word:
		return (k.after == nil || slices.Contains(k.after, before)) && !slices.Contains(k.not, before)
	case k.joined:
		return strings.HasSuffix(last, k.word) && !slices.Contains(k.not, strings.TrimSuffix(last, k.word))
	}
	return false
}

var kinds = []kind{
	{word: "TOKEN", joined: true, not: []string{
		// of a tokenizer's vocabulary, and what counts tokens
		"PAD", "EOS", "BOS", "EOT", "SOS", "UNK", "CLS", "SEP", "MASK", "STOP", "START", "END", "SPECIAL", "IMAGE", "NEXT", "FIRST", "LAST", "PER", "BY", "EACH",
	}},
	{word: "SECRET", joined: true},
	{word: "SECRETS"},
	{word: "PASSWORD", joined: true},
	{word: "PASSWD", joined: true},
	{word: "PASSPHRASE", joined: true},
	{word: "CREDENTIAL", joined: true},
	{word: "CREDENTIALS", joined: true},
	{word: "APIKEY", joined: true},
	{word: "ACCESSKEY", joined: true},
	{word: "SECRETKEY", joined: true},
	{word: "PRIVATEKEY", joined: true},
	{word: "SSHPASS"},
	{word: "KEY", not: []string{
		"", "PUBLIC", "PUB", "HOST", // not secret
		"PRIMARY", "FOREIGN", "SORT", "PARTITION", "CACHE", "SHARD", "ROW", "GROUP", "INDEX", "LOOKUP", "DICT", "MAP", "METRIC", "CONFIG", // of data
		"HOT", "SHORTCUT", "ANY", // of a keyboard
	}},
	{word: "PWD", not: []string{"", "OLD"}},
	{word: "PAT", after: []string{"GITHUB", "GH", "GITLAB", "GIT", "AZURE", "EXT"}}, // personal access tokens
	{word: "PASS", after: []string{
		"DB", "DATABASE", "SQL", "MYSQL", "POSTGRES", "PG", "REDIS", "MONGO", "RABBITMQ", "SMTP", "MAIL", "EMAIL", "IMAP", "FTP", "SSH", "SUDO", "HTTP", "PROXY",
		"USER", "ADMIN", "ROOT", "LOGIN", "AUTH", "REGISTRY", "DOCKER",
	}},
}

// split returns the words of a name in upper case, without the numbers at their ends: those between underscores, and
// between a small letter and a capital one.
func split(name string) (words []string) {
	begun := 0
	for i := 1; i < len(name); i++ {
		if 'a' <= name[i-1] && name[i-1] <= 'z' && 'A' <= name[i] && name[i] <= 'Z' {
			words = append(words, strings.Split(name[begun:i], "_")...)
			begun = i
		}
	}
	words = append(words, strings.Split(name[begun:], "_")...)
	for i, w := range words {
		words[i] = strings.TrimRight(strings.ToUpper(w), "0123456789")
		if strings.ToUpper(w) == "B64" || strings.ToUpper(w) == "BASE64" {
			words[i] = strings.ToUpper(w)
		}
	}
	return words
}

// path matches what is a path, and hardly anything else: its first folder is a short word, or . or .. or ~. The base64
// alphabet has the slash too.
var path = regexp.MustCompile(`^(~|\.{1,2}|/[A-Za-z]?[a-z0-9._-]{0,15})(/[^/+=]*)*$`)

// isHarmless reports whether a value cannot be a credential: it is empty, a number, a truth value or a path.
func isHarmless(value string) bool {
	switch strings.ToLower(value) {
	case "", "true", "false", "yes", "no", "on", "off", "none", "null", "auto", "default":
		return true
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil && len(value) < 16 {
		return true
	}
	return path.MatchString(value)
}
