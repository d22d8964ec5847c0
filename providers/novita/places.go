package novita

import (
	"regexp"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// placeForm matches the beginning of a cluster's ID, "us-ca-6" or "eu-gb-1", and of its name, "US-CA-06 (California)": a
// country, or a continent and a country.
var placeForm = regexp.MustCompile(`(?i)^([a-z]{2})(?:-([a-z]{2}))?-`)

// continents are the codes that Novita puts before a country's.
var continents = map[string]bool{"eu": true, "as": true, "ap": true, "af": true, "oc": true}

// countryOf returns the ISO code of the country of a cluster, by its ID or its name, or "".
func countryOf(cluster string) string {
	m := placeForm.FindStringSubmatch(cluster)
	if m == nil {
		return ""
	}
	code := strings.ToUpper(m[1])
	if continents[strings.ToLower(code)] {
		code = strings.ToUpper(m[2])
	}
	if code == "UK" {
		return "GB"
	}
	return code
}

// country returns the country of all regions of a product, or "" if there are several.
func (p product) country() string {
	country := ""
	for i, r := range p.Regions {
		if c := countryOf(r); i == 0 {
			country = c
		} else if c != country {
			return ""
		}
	}
	return country
}

// clusterAllowed reports whether a query allows a cluster.
func clusterAllowed(q driver.Query, id string) bool { return q.Allows(id, countryOf(id)) }
