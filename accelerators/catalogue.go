package accelerators

import (
	"iter"
	"slices"
	"strings"
	"unicode"
)

// A Model is one entry of the catalogue.
type Model struct {
	// Name is the canonical name: "A100".
	Name string
	// Vendor is the maker: "NVIDIA", "AMD", "Intel", "AWS", "Google".
	Vendor string
	// ComputeCapability is CUDA's compute capability: "8.0". It is empty if
	// CUDA does not run on the device.
	ComputeCapability string
	// Variants are the forms and memory sizes that it is made in.
	Variants []Variant
	// Aliases are further spellings of clouds and drivers, beside those that
	// [Parse] derives from Name.
	Aliases []string
}

// A Variant is one form of a model, with its memory.
type Variant struct {
	// FormFactor is PCIe, SXM, NVL, OAM, or "" if the model has only one form,
	// without a name.
	FormFactor string
	MemoryGiB  float64
}

// Models yields the catalogue.
func Models() iter.Seq[Model] {
	return func(yield func(Model) bool) {
		for _, m := range catalogue {
			m.Variants, m.Aliases = slices.Clone(m.Variants), slices.Clone(m.Aliases)
			if !yield(m) {
				return
			}
		}
	}
}

// Lookup finds a model by its name or an alias, in any case, with or without
// spaces and dashes.
func Lookup(name string) (Model, bool) {
	i, ok := index[normal(name)]
	if !ok {
		return Model{}, false
	}
	return catalogue[i], true
}

// index has the place of each model in the catalogue, by all of its spellings.
var index = func() map[string]int {
	all := map[string]int{}
	for i, m := range catalogue {
		all[normal(m.Name)] = i
		for _, alias := range m.Aliases {
			all[normal(alias)] = i
		}
	}
	return all
}()

// normal returns a spelling in upper case, letters and digits only.
func normal(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToUpper(r)
		}
		return -1
	}, s)
}

// is reports whether name is one of this model's spellings.
func (m Model) is(name string) bool {
	other, ok := Lookup(name)
	return ok && other.Name == m.Name
}

// forms returns the form factors that the model comes in.
func (m Model) forms() []string {
	var out []string
	for _, v := range m.Variants {
		if !slices.Contains(out, v.FormFactor) {
			out = append(out, v.FormFactor)
		}
	}
	return out
}

func (m Model) comesAs(form string) bool { return slices.Contains(m.forms(), form) }

// memories returns the sizes of one form, or of all.
func (m Model) memories(form string) []float64 {
	var out []float64
	for _, v := range m.Variants {
		if form == "" || v.FormFactor == form {
			out = append(out, v.MemoryGiB)
		}
	}
	return append(out, 0)[:max(1, len(out))] // 0 if there is no such form
}

func (m Model) least(form string) float64 { return slices.Min(m.memories(form)) }
func (m Model) most(form string) float64  { return slices.Max(m.memories(form)) }

// canonicalForm returns the form factor that a word means, or "".
func canonicalForm(word string) string {
	switch w := strings.TrimRight(normal(word), "0123456789"); w {
	case "PCIE", "PCI", "FHHL":
		return PCIe
	case "SXM", "NVL", "OAM":
		return w
	}
	return ""
}
