package cloud

import (
	"strings"
	"testing"
)

func TestKeyAccount(t *testing.T) {
	if a, b := KeyAccount("one"), KeyAccount("two"); a == b || a != KeyAccount("one") || strings.Contains(a, "one") {
		t.Errorf("%q, %q", a, b)
	}
}
