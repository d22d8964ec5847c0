package accelerators

import (
	"slices"
	"strings"
	"testing"
)

// A cloudName is a line of cloudNames.
type cloudName struct{ cloud, name, is, refused string }

func listed(t *testing.T) []cloudName {
	t.Helper()
	var all []cloudName
	for cloud, text := range cloudNames {
		for line := range strings.Lines(strings.TrimSpace(text)) {
			name, is, ok := strings.Cut(line, " = ")
			_, why, refused := strings.Cut(line, " ! ")
			switch {
			case ok:
				all = append(all, cloudName{cloud: cloud, name: strings.TrimRight(name, " "), is: strings.TrimSpace(is)})
			case refused:
				name, _, _ = strings.Cut(line, " ! ")
				why, _, _ = strings.Cut(why, " ! ")
				all = append(all, cloudName{cloud: cloud, name: strings.TrimRight(name, " "), refused: strings.TrimSpace(why)})
			default:
				t.Fatalf("odd line %q of %s", line, cloud)
			}
		}
	}
	return all
}

func TestCloudNames(t *testing.T) {
	for _, n := range listed(t) {
		a, err := ParseFrom(n.cloud, n.name)
		switch {
		case n.refused != "":
			if err == nil || !strings.Contains(err.Error(), n.refused) || !strings.Contains(err.Error(), n.cloud) {
				t.Errorf("%s: %q is %v, %v; want an error that names the cloud, with %q", n.cloud, n.name, a, err, n.refused)
			}
			continue
		case err != nil || a.String() != n.is:
			t.Errorf("%s: %q is %v, %v; want %s", n.cloud, n.name, a, err, n.is)
			continue
		}
		if !a.Matches(a) {
			t.Errorf("%s: %q does not match itself", n.cloud, n.name)
		}
		if again := mustParse(t, a.String()); again != a {
			t.Errorf("%s: %q is %+v, and its text %+v", n.cloud, n.name, a, again)
		}
	}
}

// Every rule applies to a name in cloudNames, and every cloud with rules has
// names there.
func TestDialectsAreUsed(t *testing.T) {
	for cloud, rules := range dialects {
		for _, r := range rules {
			used := slices.ContainsFunc(listed(t), func(n cloudName) bool { return n.cloud == cloud && usesRule(n.name, rules, r) })
			if !used {
				t.Errorf("no name of %s needs the rule %s", cloud, r.fits)
			}
		}
	}
}

// usesRule reports whether r applies to a name, after the rules before it.
func usesRule(name string, rules []rule, r rule) bool {
	for _, each := range rules {
		m := each.fits.FindStringSubmatch(name)
		switch {
		case m == nil:
		case each.fits == r.fits:
			return true
		case each.compute != nil:
			name = each.compute(m)
		default:
			name = each.fits.ReplaceAllString(name, each.means)
		}
	}
	return false
}

// A name that no rule of the cloud matches is parsed as by Parse.
func TestParseFromElsewhere(t *testing.T) {
	for in, want := range map[string]string{"8x H100": "H100:8", `"own name":2`: `"own name":2`, "none": "cpu"} {
		for _, cloud := range []string{"vultr", "colab", "acme"} {
			if a, err := ParseFrom(cloud, in); err != nil || a.String() != want {
				t.Errorf("ParseFrom(%q, %q) = %v, %v; want %s", cloud, in, a, err, want)
			}
		}
	}
	if _, err := ParseFrom("vultr", strings.Repeat("x", longest+1)); err == nil {
		t.Error("a name without end is accepted")
	}
}

// A parsed cloud name is valid, and its text parses to the same.
func FuzzParseFrom(f *testing.F) {
	for cloud, text := range cloudNames {
		for line := range strings.Lines(strings.TrimSpace(text)) {
			f.Add(cloud, strings.TrimRight(strings.FieldsFunc(line, func(r rune) bool { return r == '=' || r == '!' })[0], " "))
		}
	}
	f.Add("vultr", "vcg-a16-2c-8g-0vram")
	f.Add("verda", "99H100.80S.30V")
	f.Fuzz(func(t *testing.T, cloud, s string) {
		a, err := ParseFrom(cloud, s)
		if err != nil {
			return
		}
		if err := a.Validate(); err != nil {
			t.Errorf("ParseFrom(%q, %q) = %+v, which is not valid: %v", cloud, s, a, err)
		}
		if again, err := Parse(a.String()); err != nil || again != a {
			t.Errorf("ParseFrom(%q, %q) = %+v, but Parse(%q) = %+v, %v", cloud, s, a, a.String(), again, err)
		}
	})
}
