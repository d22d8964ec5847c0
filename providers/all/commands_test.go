package all

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
)

// attacks are settings that run a program here, by provider.
func attacks(command string) map[string]map[string]any {
	ref := "cmd://" + command
	return map[string]map[string]any{
		"aws":           {"secret_access_key": ref, "access_key_id": "AKIA"},
		"gcp":           {"credentials": ref},
		"hyperstack":    {"APIKey": ref},
		"jarvislabs":    {"api_key": ref},
		"lambda":        {"apikey": ref},
		"massedcompute": {"APIKey": ref},
		"novita":        {"APIKey": ref},
		"runpod":        {"APIKey": ref},
		"scaleway":      {"SecretKey": ref},
		"sim":           {"Token": ref},
		"tensordock":    {"APIToken": ref},
		"vastai":        {"APIKey": ref},
		"verda":         {"ClientID": ref, "ClientSecret": "x"}, // a plain string, and looked up all the same
		"vultr":         {"APIKey": ref},
	}
}

// What a settings file says is not run, unless the program says so.
func TestSettingsRunNothing(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	for name, settings := range attacks("echo>" + ran) {
		p, err := New(name, settings)
		if p != nil {
			_, _ = p.Open(t.Context())
		}
		if !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "cmd://") || !strings.Contains(err.Error(), "AllowCommands") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), ran) {
			t.Errorf("%s: the error shows the command line: %v", name, err)
		}
		if p, err := New(name, settings, AllowCommands()); err != nil || p == nil {
			t.Errorf("%s, allowed: %v", name, err)
		}
	}
	engine := filepath.Join(t.TempDir(), "docker")
	if err := os.WriteFile(engine, []byte("#!/bin/sh\n: >"+ran+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for field, value := range map[string]any{"Binary": engine, "run_args": []any{"--volume=/:/host"}, "devices": []any{"/dev/sda"}} {
		p, err := New("container", map[string]any{field: value, "image": "debian"})
		if p != nil || !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "says what this computer runs") {
			t.Errorf("container, %s: %v", field, err)
		}
		if _, err := New("container", map[string]any{field: value}, AllowCommands()); err != nil {
			t.Errorf("container, %s, allowed: %v", field, err)
		}
	}
	if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
		t.Error("a settings file had something run")
	}
}

// Every credential that a file can hold is among the attacks: a provider that is
// added is, too.
func TestEveryCredentialIsAttacked(t *testing.T) {
	secret := reflect.TypeFor[gputrain.Secret]()
	for _, c := range configs {
		typ := reflect.TypeOf(c)
		for _, f := range reflect.VisibleFields(typ) {
			if f.Type == secret && attacks("x")[c.Name()] == nil {
				t.Errorf("%s has the credential %s", c.Name(), f.Name)
			}
		}
		for _, name := range runs[c.Name()] {
			if _, ok := typ.FieldByName(name); !ok {
				t.Errorf("%s has no setting %s", c.Name(), name)
			}
		}
	}
}

func TestACommandIsFoundAnywhere(t *testing.T) {
	type inner struct{ A, B string }
	for want, v := range map[string]any{
		"it": gputrain.Secret(" cmd://x"), "it[1]": []string{"", "cmd://x"}, `it["k"]`: map[string]string{"k": "cmd://x"},
		"it[0].B": []inner{{B: "cmd://x"}}, "": []any{"CMD://x", "xcmd://", 7}[0],
	} {
		if got := findCommand("it", reflect.ValueOf(v)); got != want {
			t.Errorf("in %v it is at %q, not %q", v, got, want)
		}
	}
	if !slices.Contains(Names(), "container") {
		t.Error("there is no container provider")
	}
}

// Whatever settings say, New answers, and nothing that it takes runs a command.
func FuzzSettings(f *testing.F) {
	for _, seed := range [][3]string{
		{"vastai", "min_cuda", "12.4"}, {"vastai", "APIKey", "cmd://true"}, {"ssh", "Hosts", "a"}, {"container", "Binary", "sh"},
		{"container", "labels", "cmd://x"}, {"runpod", "Volume-GB", "-1"}, {"gcp", "Credentials", "\tcmd://x"}, {"local", "dir", "\x00"},
	} {
		f.Add(seed[0], seed[1], seed[2], uint8(1), 1.5)
	}
	f.Fuzz(func(t *testing.T, name, key, text string, shape uint8, number float64) {
		var value any = text
		switch shape % 8 {
		case 1:
			value = number
		case 2:
			value = []any{text, number}
		case 3:
			value = map[string]any{text: text}
		case 4:
			value = []any{map[string]any{text: text, "addr": text}}
		case 5:
			value = nil
		case 6:
			value = shape > 127
		case 7:
			value = []string{text}
		}
		p, err := New(name, map[string]any{key: value})
		if (p == nil) == (err == nil) {
			t.Fatalf("%v, %v", p, err)
		}
		if err != nil {
			if !errors.Is(err, gputrain.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		v := reflect.ValueOf(p)
		for _, field := range reflect.VisibleFields(v.Type()) {
			if why := commandIn(name, field.Name, v.FieldByIndex(field.Index)); why != "" {
				t.Fatal(why)
			}
		}
	})
}
