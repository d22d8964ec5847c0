package driver

import "fmt"

// nameOf returns the name of a constant that counts from 0.
func nameOf[T ~int](v T, names ...string) string {
	if v < 0 || int(v) >= len(names) {
		return fmt.Sprintf("%T(%d)", v, int(v))
	}
	return names[v]
}
