package byname

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

func TestACommandIsFoundAnywhere(t *testing.T) {
	type inner struct{ A, B string }
	for want, v := range map[string]any{
		"it": driver.Secret(" cmd://x"), "it[1]": []string{"", "cmd://x"}, `it["k"]`: map[string]string{"k": "cmd://x"},
		"it[0].B": []inner{{B: "cmd://x"}}, "": []any{"CMD://x", "xcmd://", 7}[0], "it[1].A": []inner{{}, {A: "a program"}},
	} {
		got, _, _ := strings.Cut(findCommand([]string{"it.A"}, "it", "it", reflect.ValueOf(v)), " ")
		if got != want {
			t.Errorf("in %v it is at %q, not %q", v, got, want)
		}
	}
}

// For any settings, New returns a provider or an error, and no accepted setting runs a command.
func FuzzSettings(f *testing.F) {
	for _, seed := range [][3]string{
		{"vastai", "min_cuda", "12.4"}, {"vastai", "APIKey", "cmd://true"}, {"ssh", "Hosts", "a"}, {"container", "Binary", "sh"},
		{"container", "labels", "cmd://x"}, {"runpod", "Volume-GB", "-1"}, {"lambda", "APIKey", "\tcmd://x"}, {"local", "dir", "\x00"},
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
		p, err := Set{Package: "light", Configs: Light}.New(name, map[string]any{key: value})
		if (p == nil) == (err == nil) {
			t.Fatalf("%v, %v", p, err)
		}
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		v := reflect.ValueOf(p)
		for _, field := range reflect.VisibleFields(v.Type()) {
			if why := CommandIn(name, field.Name, v.FieldByIndex(field.Index)); why != "" {
				t.Fatal(why)
			}
		}
	})
}
