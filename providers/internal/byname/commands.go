package byname

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// An Option changes what New accepts in settings.
type Option func(*options)

type options struct{ commands bool }

// AllowCommands accepts settings that run programs on this computer.
func AllowCommands() Option { return func(o *options) { o.commands = true } }

// Runs are the settings, by provider, that choose a program to run on this computer, or in the user's
// name on a cluster that he shares, or give a container's programs power over this computer. All
// others are data, which TestEveryFieldIsMarked lists: a new field needs a line here or there. A field in a field has a path with dots.
var Runs = map[string][]string{
	"container":  {"Binary", "RunArgs", "Devices"},
	"kubernetes": {"Kubeconfig"},                                                                                                  // its exec plugins are programs
	"slurm":      {"Local", "Path", "Container", "Setup", "WorkDir", "SSHD", "SbatchArgs", "Login.ConfigFile", "Jump.ConfigFile"}, // shell, programs, and options that name some
	"ssh":        {"Hosts.ConfigFile", "Jump.ConfigFile"},                                                                         // a Match exec is a program
}

// commandScheme begins a reference that is a command line.
const commandScheme = "cmd://"

// CommandIn returns the reason why a setting runs a program on this computer, or "".
func CommandIn(provider, field string, value reflect.Value) string {
	return findCommand(Runs[provider], field, field, value)
}

// findCommand returns why a value, or one in it, is a command. The value is shown as at; path is the same without indexes. The type
// of a text does not matter: a credential may be a plain string.
func findCommand(runs []string, path, at string, v reflect.Value) string {
	if slices.Contains(runs, path) && !v.IsZero() {
		return at + " says what this computer runs, or a cluster in your name"
	}
	switch v.Kind() {
	case reflect.String:
		if strings.HasPrefix(strings.TrimSpace(v.String()), commandScheme) {
			return at + " begins with " + commandScheme + ", which this computer runs as a command"
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if found := findCommand(runs, path, fmt.Sprintf("%s[%d]", at, i), v.Index(i)); found != "" {
				return found
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if found := findCommand(runs, path, fmt.Sprintf("%s[%q]", at, key.String()), v.MapIndex(key)); found != "" {
				return found
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := "." + v.Type().Field(i).Name
			if found := findCommand(runs, path+name, at+name, v.Field(i)); found != "" {
				return found
			}
		}
	}
	return ""
}
