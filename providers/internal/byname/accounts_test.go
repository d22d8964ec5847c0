package byname

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/lambda"
)

var light = Set{Package: "light", Configs: Light, Elsewhere: map[string]string{"aws": "it is in package all"}}

func TestAccounts(t *testing.T) {
	settings := map[string]map[string]any{
		"work": {"provider": "lambda", "api_key": "sk-hunter2"}, "own": {"Provider": "lambda", "APIKey": "env://OWN"}, "here": {"provider": "local"},
	}
	accounts, err := light.Accounts(settings)
	if err != nil {
		t.Fatal(err)
	}
	delete(settings, "work") // the registry is a value
	if got := accounts.Names(); !slices.Equal(got, []string{"here", "own", "work"}) {
		t.Errorf("names are %q", got)
	}
	for name, want := range map[string]driver.Provider{"work": lambda.Config{APIKey: "sk-hunter2"}, "own": lambda.Config{APIKey: "env://OWN"}} {
		if p, err := accounts.Provider(name); err != nil || !reflect.DeepEqual(p, want) {
			t.Errorf("%s is another provider: %v", name, err)
		}
	}
	if p, err := accounts.Provider("Work"); p != nil || !errors.Is(err, driver.ErrNotFound) || !strings.Contains(err.Error(), "here, own, work") {
		t.Errorf("%v, %v", p, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, accounts); strings.Contains(text, "hunter2") {
			t.Errorf("%s prints the key: %s", verb, text)
		}
	}
	var none Registry
	if p, err := none.Provider("work"); p != nil || !errors.Is(err, driver.ErrNotFound) || none.Names() != nil {
		t.Errorf("of no accounts: %v, %v", p, err)
	}
}

// One error names everything that is wrong, and shows no credential.
func TestAccountsThatAreWrong(t *testing.T) {
	accounts, err := light.Accounts(map[string]map[string]any{
		"right": {"provider": "lambda"},
		"a":     {"provider": "lamda"},
		"b":     {"provider": "lambda", "Colour": "red", "LaunchInterval": "soon"},
		"c":     {"api_key": "sk-hunter2"},
		"d":     {"provider": 7},
		"e":     {"provider": "lambda", "Provider": "local"},
		"f":     {"provider": "lambda", "api_key": "cmd://op read hunter2"},
		"g":     {"provider": "container", "binary": "/tmp/hunter2"},
		"h":     {"provider": "aws"},
		"i":     nil,
		" ":     {"provider": "lambda"},
	})
	if !errors.Is(err, driver.ErrInvalid) || accounts.Names() != nil {
		t.Fatalf("%q, %v", accounts.Names(), err)
	}
	for _, want := range []string{
		`account "a": invalid: there is no provider "lamda"`, `there is no setting "Colour"`, `LaunchInterval: it must be a duration`,
		`account "c": invalid: it has no "provider"`, `account "d": invalid: provider: it must be a text`, `account "e": invalid: "provider" is there twice`,
		`account "f": lambda: configure: invalid: api_key`, `give Accounts light.AllowCommands()`, `account "g": container: configure: invalid: Binary says`,
		`account "h": invalid: provider "aws" is not in package light`, `account "i": invalid: it has no`, `an account needs a name`,
	} {
		if !strings.Contains(strings.ReplaceAll(err.Error(), "APIKey begins", "api_key begins"), want) {
			t.Errorf("the error does not say %q", want)
		}
	}
	if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), `"right"`) {
		t.Errorf("the error says too much: %v", err)
	}
	if _, err := light.Accounts(map[string]map[string]any{"f": {"provider": "lambda", "api_key": "cmd://op read x"}}, AllowCommands()); err != nil {
		t.Errorf("allowed: %v", err)
	}
}
