package vastai

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// regions are names of several countries: those of Vast's command line. The API itself has only
// countries.
var regions = map[string]string{
	"EU":            "AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE",
	"North_America": "AG BS BB BZ CA CR CU DM DO SV GD GT HT HN JM MX NI PA KN LC VC TT US",
	"South_America": "AR BO BR CL CO EC FK GF GY PY PE SR UY VE",
	"Europe":        "AL AD AT BY BE BA BG HR CY CZ DK EE FI FR DE GR HU IS IE IT LV LI LT LU MT MD MC ME NL MK NO PL PT RO RU SM RS SK SI ES SE CH UA GB VA XK",
	"Asia":          "AF AM AZ BH BD BT BN KH CN GE IN ID IR IQ IL JP JO KZ KW KG LA LB MY MV MN MM NP KP OM PK PH QA SA SG KR LK SY TW TJ TH TL TR TM AE UZ VN YE HK MO",
	"Oceania":       "AS AU CK FJ PF GU KI MH FM NR NC NZ NU MP PW PG PN WS SB TK TO TV VU WF",
	"Africa":        "DZ AO BJ BW BF BI CV CM CF TD KM CG CD CI DJ EG GQ ER SZ ET GA GM GH GN GW KE LS LR LY MG MW ML MR MU MA MZ NA NE NG RW ST SN SC SL SO ZA SS SD TZ TG TN UG ZM ZW",
}

// countries returns the countries of places, sorted and without duplicates.
func countries(places []string) ([]string, error) {
	var codes []string
	for _, place := range places {
		if of, ok := regions[place]; ok {
			codes = append(codes, strings.Fields(of)...)
			continue
		}
		code := strings.ToUpper(place)
		if !isCountry(code) {
			return nil, fmt.Errorf("%q is neither a country of two letters nor one of %s",
				place, strings.Join(slices.Sorted(maps.Keys(regions)), ", "))
		}
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return slices.Compact(codes), nil
}

// isCountry reports whether a text has the form of a country's code.
func isCountry(code string) bool {
	return len(code) == 2 && code[0] >= 'A' && code[0] <= 'Z' && code[1] >= 'A' && code[1] <= 'Z'
}

// countryOf returns the country of a geolocation such as "Washington, US", or "" if it has none
// at its end.
func countryOf(geolocation string) string {
	last := strings.ToUpper(strings.TrimSpace(geolocation[strings.LastIndexByte(geolocation, ',')+1:]))
	switch {
	case !isCountry(last):
		return ""
	case last == "UK": // not an ISO code
		return "GB"
	}
	return last
}
