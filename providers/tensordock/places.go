package tensordock

import "strings"

// countries are codes by the API's names and others, in lower case. The API writes a country in
// several ways.
var countries = map[string]string{
	"united states": "US", "usa": "US", "united states of america": "US", "united kingdom": "GB", "uk": "GB", "great britain": "GB",
	"germany": "DE", "canada": "CA", "france": "FR", "netherlands": "NL", "the netherlands": "NL", "sweden": "SE", "norway": "NO",
	"finland": "FI", "denmark": "DK", "poland": "PL", "spain": "ES", "italy": "IT", "belgium": "BE", "austria": "AT", "switzerland": "CH",
	"czechia": "CZ", "czech republic": "CZ", "romania": "RO", "bulgaria": "BG", "estonia": "EE", "lithuania": "LT", "latvia": "LV",
	"iceland": "IS", "ireland": "IE", "portugal": "PT", "ukraine": "UA", "turkey": "TR", "israel": "IL", "india": "IN", "singapore": "SG",
	"japan": "JP", "south korea": "KR", "taiwan": "TW", "hong kong": "HK", "malaysia": "MY", "thailand": "TH", "vietnam": "VN",
	"australia": "AU", "new zealand": "NZ", "brazil": "BR", "mexico": "MX", "argentina": "AR", "south africa": "ZA",
	"united arab emirates": "AE", "uae": "AE", "greece": "GR", "hungary": "HU", "slovakia": "SK", "slovenia": "SI", "croatia": "HR",
	"serbia": "RS", "luxembourg": "LU", "moldova": "MD", "cyprus": "CY", "malta": "MT", "russia": "RU", "kazakhstan": "KZ", "georgia": "GE",
	"armenia": "AM", "saudi arabia": "SA", "qatar": "QA", "egypt": "EG", "nigeria": "NG", "kenya": "KE", "china": "CN", "indonesia": "ID",
	"philippines": "PH", "pakistan": "PK", "bangladesh": "BD", "chile": "CL", "colombia": "CO", "peru": "PE", "costa rica": "CR", "panama": "PA",
}

// isoCode returns the code of a country, or "" if it is not known.
func isoCode(name string) string {
	if code := countryOf(name); len(code) == 2 {
		return code
	}
	return ""
}

// countryOf returns the code of a country, or its name if it has no known code.
func countryOf(name string) string {
	name = strings.TrimSpace(name)
	if code, ok := countries[strings.ToLower(name)]; ok {
		return code
	}
	if len(name) == 2 {
		return strings.ToUpper(name)
	}
	return name
}

// inCountry reports whether a location's country is the wanted one: by its code, or by a part
// of its name. Empty means any.
func inCountry(name, wanted string) bool {
	if len(wanted) == 2 {
		return countryOf(name) == wanted
	}
	return strings.Contains(strings.ToLower(name), strings.ToLower(wanted))
}

// region returns a location in the form of Offer.Region: "US-Texas-Austin".
func (l location) region() string {
	parts := []string{countryOf(l.Country)}
	for _, p := range []string{l.State, l.City} {
		if p = strings.TrimSpace(p); p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "-")
}
