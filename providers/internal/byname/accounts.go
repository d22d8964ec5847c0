package byname

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// providerKey is the setting of an account that names its provider. No Config has such a field.
const providerKey = "provider"

// A Registry has accounts by the names that a user gave them. It is a value: a copy has the same
// accounts. The zero value has none.
type Registry struct {
	names []string
	find  func(name string) driver.Provider // a func, so that no credential prints
}

// Accounts makes the providers of accounts, each with the settings in its Config.
func (s Set) Accounts(accounts map[string]map[string]any, opts ...Option) (Registry, error) {
	providers := map[string]driver.Provider{}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		p, err := s.account(name, accounts[name], opts)
		if err != nil {
			faults = append(faults, fmt.Errorf("account %q: %w", name, err))
			continue
		}
		providers[name] = p
	}
	if len(faults) > 0 {
		return Registry{}, errors.Join(faults...)
	}
	return Registry{
		names: slices.Sorted(maps.Keys(providers)),
		find:  func(name string) driver.Provider { return providers[name] },
	}, nil
}

func (s Set) account(name string, settings map[string]any, opts []Option) (driver.Provider, error) {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
	}
	var faults []error
	if strings.TrimSpace(name) == "" {
		faults = append(faults, invalid("an account needs a name"))
	}
	of, known, own := "", false, map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		value := settings[key]
		if !same(key, providerKey) {
			own[key] = value
			continue
		}
		text, isText := value.(string)
		switch {
		case known:
			faults = append(faults, invalid("%q is there twice", providerKey))
		case !isText:
			faults = append(faults, invalid("%s: it must be a text", key))
		}
		of, known = text, true
	}
	if !known {
		faults = append(faults, invalid("it has no %q; there are %s", providerKey, strings.Join(s.Names(), ", ")))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return s.make("Accounts", of, own, opts)
}

// Names returns the names of the accounts, in alphabetical order.
func (r Registry) Names() []string { return slices.Clone(r.names) }

// Provider returns the account of a name. If there is none, the error is [driver.ErrNotFound].
func (r Registry) Provider(name string) (driver.Provider, error) {
	if r.find != nil {
		if p := r.find(name); p != nil {
			return p, nil
		}
	}
	there := "there are none"
	if len(r.names) > 0 {
		there = "there are " + strings.Join(r.names, ", ")
	}
	return nil, fmt.Errorf("%w: there is no account %q; %s", driver.ErrNotFound, name, there)
}
