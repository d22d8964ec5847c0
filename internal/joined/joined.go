// Package joined joins errors that may be alike.
package joined

import "errors"

// Once joins errors, each text once: four nodes that fail alike are one line.
func Once(errs []error) error {
	seen := map[string]bool{}
	var unique []error
	for _, err := range errs {
		if !seen[err.Error()] {
			seen[err.Error()] = true
			unique = append(unique, err)
		}
	}
	return errors.Join(unique...)
}
