package all

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
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
		"verda":         {"ClientID": ref, "ClientSecret": "x"}, // a plain string, but also looked up
		"vultr":         {"APIKey": ref},
	}
}

// New runs no command from settings, unless the program allows it.
func TestSettingsRunNothing(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	for name, settings := range attacks("echo>" + ran) {
		p, err := New(name, settings)
		if p != nil {
			_, _ = p.Open(t.Context())
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "cmd://") || !strings.Contains(err.Error(), "AllowCommands") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), ran) {
			t.Errorf("%s: the error shows the command line: %v", name, err)
		}
		settings["provider"] = name
		if _, err := Accounts(map[string]map[string]any{"work": settings}); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "give Accounts all.AllowCommands()") {
			t.Errorf("account of %s: %v", name, err)
		}
		delete(settings, "provider")
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
		if p != nil || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "says what this computer runs") {
			t.Errorf("container, %s: %v", field, err)
		}
		if _, err := New("container", map[string]any{field: value}, AllowCommands()); err != nil {
			t.Errorf("container, %s, allowed: %v", field, err)
		}
	}
	if p, err := New("kubernetes", map[string]any{"kubeconfig": "/tmp/strangers"}); p != nil || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "says what this computer runs") {
		t.Errorf("kubernetes, kubeconfig: %v", err)
	}
	hosts := map[string]any{"hosts": []any{map[string]any{"addr": "gpu1", "config_file": engine}}}
	if p, err := New("ssh", hosts); p != nil || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "Hosts[0].ConfigFile says what this computer runs") {
		t.Errorf("ssh, config_file: %v", err)
	}
	if _, err := New("ssh", hosts, AllowCommands()); err != nil {
		t.Errorf("ssh, config_file, allowed: %v", err)
	}
	for field, value := range map[string]any{
		"setup": []any{"touch " + ran}, "SSHD": engine, "path": "/tmp", "container": "/tmp/strangers.sif", "sbatch_args": []any{"--prolog=" + engine}, "work-dir": "$(touch " + ran + ")", "Local": true,
		"login": map[string]any{"addr": "login", "config_file": engine}, "jump": []any{map[string]any{"addr": "door", "ConfigFile": engine}},
	} {
		settings := map[string]any{field: value}
		p, err := New("slurm", settings)
		if p != nil || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "says what this computer runs, or a cluster in your name") || !strings.Contains(err.Error(), "give New all.AllowCommands()") {
			t.Errorf("slurm, %s: %v", field, err)
		}
		if _, err := New("slurm", settings, AllowCommands()); err != nil {
			t.Errorf("slurm, %s, allowed: %v", field, err)
		}
		settings["provider"] = "slurm"
		if _, err := Accounts(map[string]map[string]any{"work": settings}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("account of slurm, %s: %v", field, err)
		}
	}
	if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
		t.Error("New ran a command of the settings")
	}
}

// The attacks have every credential that a file can hold, also those of a new provider.
func TestEveryCredentialIsAttacked(t *testing.T) {
	secret := reflect.TypeFor[driver.Secret]()
	for _, c := range set.Configs {
		typ := reflect.TypeOf(c)
		for _, f := range reflect.VisibleFields(typ) {
			if f.Type == secret && attacks("x")[c.Name()] == nil {
				t.Errorf("%s has the credential %s", c.Name(), f.Name)
			}
		}
		if _, ok := typ.FieldByName("Provider"); ok {
			t.Errorf("%s has a field Provider, which Accounts takes for the provider's name", c.Name())
		}
	}
}
