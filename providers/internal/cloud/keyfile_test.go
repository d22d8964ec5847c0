package cloud

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A key's file may begin with a byte order mark; the first one that is there counts.
func TestKeyFile(t *testing.T) {
	home, config := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Setenv("XDG_CONFIG_HOME", config)
	if err := errors.Join(os.Mkdir(filepath.Join(config, "x"), 0o700), os.WriteFile(filepath.Join(home, ".key"), []byte("\ufeffabc\r\n"), 0o600),
		os.WriteFile(filepath.Join(config, "x", "key"), []byte("def"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		paths []string
		want  string
	}{
		{nil, ""},
		{[]string{"", ".none"}, ""},
		{[]string{".none", ".key"}, "abc\r\n"},
		{[]string{ConfigHome("x/key"), ".key"}, "def"},
	} {
		if got, err := KeyFile(tt.paths...); got != tt.want || err != nil {
			t.Errorf("%q: %q, %v", tt.paths, got, err)
		}
	}
	if _, err := KeyFile("."); err == nil {
		t.Error("a folder is a key's file")
	}
	for _, none := range []string{"", "relative"} {
		t.Setenv("XDG_CONFIG_HOME", none)
		if got := ConfigHome("x"); got != "" {
			t.Errorf("%q: %q", none, got)
		}
	}
}

// Files of settings have sections, or none.
func TestSetting(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		`apikey = "a"`:           "a",
		`api_key = 'a' # mine`:   "a",
		"\tAPI_KEY=a # mine\r\n": "a",
		"# api_key = b\nother = c\napi_key = a\n":                 "a",
		"[work]\napi_key = \"b\"\n\n[default]\napi_key = \"a\"\n": "a",
		"[default]\napi_key = \"a\"\n[work]\napi_key = \"b\"\n":   "a",
		"[\"default\"]\n\"api_key\" = \"a\"\n":                    "a",
		"api_key = \"a\"\n[default]\napi_key = \"b\"\n":           "a",
		"api_key = \"\"\n[default]\napi_key = \"a\"\n":            "a",
		"[work]\napi_key = \"b\"\n":                               "",
		"api_key = a=b\n":                                         "a=b",
	} {
		if got := Setting(text, "api_key", "apikey"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
