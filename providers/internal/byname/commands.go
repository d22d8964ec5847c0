package byname

import (
	"fmt"
	"reflect"
	"strings"
)

// An Option changes what New accepts in settings.
type Option func(*options)

type options struct{ commands bool }

// AllowCommands accepts settings that run programs on this computer.
func AllowCommands() Option { return func(o *options) { o.commands = true } }

// Runs are the settings, by provider, that choose a program to run on this computer, or in the user's
// name on a cluster that he shares, or give a container's programs power over this computer. All
// others are data, which TestEveryFieldIsMarked lists: a new field needs a line here or there.
var Runs = map[string][]string{
	"container":  {"Binary", "RunArgs", "Devices"},
	"kubernetes": {"Kubeconfig"},                                                   // its exec plugins are programs
	"slurm":      {"Local", "Container", "Setup", "WorkDir", "SSHD", "SbatchArgs"}, // shell, programs, and options that name some
}

// commandScheme begins a reference that is a command line.
const commandScheme = "cmd://"

// CommandIn returns the reason why a setting runs a program on this computer, or "".
func CommandIn(provider, field string, value reflect.Value) string {
	for _, f := range Runs[provider] {
		if f == field && !value.IsZero() {
			return field + " says what this computer runs, or a cluster in your name"
		}
	}
	if at := findCommand(field, value); at != "" {
		return at + " begins with " + commandScheme + ", which this computer runs as a command"
	}
	return ""
}

// findCommand returns the place of a text that is a command line, or "". The type
// of the text does not matter: a credential may be a plain string.
func findCommand(at string, v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		if strings.HasPrefix(strings.TrimSpace(v.String()), commandScheme) {
			return at
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if found := findCommand(fmt.Sprintf("%s[%d]", at, i), v.Index(i)); found != "" {
				return found
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if found := findCommand(fmt.Sprintf("%s[%q]", at, key.String()), v.MapIndex(key)); found != "" {
				return found
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if found := findCommand(at+"."+v.Type().Field(i).Name, v.Field(i)); found != "" {
				return found
			}
		}
	}
	return ""
}
