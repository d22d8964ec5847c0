package worker

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"sync"
)

// functions are the functions of this process.
var functions registry

// Register makes h callable under a name. Packages call it while they are initialized, in the client and on the node
// alike. A bad name or a duplicate does not panic: [RegistrationError] reports it.
func Register(name string, h Handler) { RegisterAt(name, CallerPosition(1), h) }

// RegisterAt is [Register] with the position in the source for error messages.
func RegisterAt(name, position string, h Handler) { functions.add(name, position, h) }

// RegistrationError returns all mistakes in calls of Register and RegisterError, or nil.
func RegistrationError() error { return errors.Join(functions.err(), sentinels.err()) }

// Names returns the sorted names of all registered functions.
func Names() []string { return functions.names() }

// Registered reports whether a function of this name is registered.
func Registered(name string) bool {
	_, ok := functions.handler(name)
	return ok
}

// CallerPosition returns "file:line" of a caller: 0 is the caller of
// CallerPosition itself.
func CallerPosition(skip int) string {
	_, file, line, ok := runtime.Caller(skip + 1)
	if !ok {
		return "an unknown place"
	}
	return fmt.Sprintf("%s:%d", file, line)
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,100}$`)

type registry struct {
	mu      sync.Mutex
	entries map[string]registered
	errs    []error
}

type registered struct {
	handler  Handler
	position string
}

func (r *registry) add(name, position string, h Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, taken := r.entries[name]
	switch {
	case h == nil:
		r.errs = append(r.errs, fmt.Errorf("the function %q at %s is nil", name, position))
	case !goodName.MatchString(name):
		r.errs = append(r.errs, fmt.Errorf("the function name %q at %s is not of 1 to 100 letters, digits and _ . / -", name, position))
	case taken:
		r.errs = append(r.errs, fmt.Errorf("two functions are called %q: at %s and at %s; rename one", name, first.position, position))
	default:
		if r.entries == nil {
			r.entries = map[string]registered{}
		}
		r.entries[name] = registered{h, position}
	}
}

func (r *registry) handler(name string) (Handler, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[name]
	return e.handler, ok
}

func (r *registry) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.entries))
}

func (r *registry) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.errs...)
}
