package driver

import (
	"reflect"
	"sync"
)

var configs sync.Map // reflect.Type, by its name

// RegisterConfig makes a type of providers known by its name, so that another process of the same
// program can read such a provider: the guardian that gputrain.Open starts. Call it in the package
// that has the type:
//
//	var _ driver.Provider = driver.RegisterConfig(Config{})
//
// A pool whose provider is of another type has no guardian.
func RegisterConfig[P Provider](zero P) P {
	t := reflect.TypeFor[P]()
	configs.Store(ConfigName(t), t)
	return zero
}

// RegisteredConfig returns the type that was registered under a name.
func RegisteredConfig(name string) (t reflect.Type, ok bool) {
	v, ok := configs.Load(name)
	if !ok {
		return nil, false
	}
	return v.(reflect.Type), true
}

// ConfigName returns the name under which a type is registered: its package's path, a dot, and its
// name there.
func ConfigName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }
