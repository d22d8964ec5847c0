package gcp

import "strings"

// countries are the countries of Google's regions by their ISO 3166-1 codes, as Google's list of
// regions names their places.
var countries = map[string]string{
	"africa-south1": "ZA", "asia-east1": "TW", "asia-east2": "HK", "asia-northeast1": "JP", "asia-northeast2": "JP", "asia-northeast3": "KR",
	"asia-south1": "IN", "asia-south2": "IN", "asia-southeast1": "SG", "asia-southeast2": "ID", "asia-southeast3": "TH",
	"australia-southeast1": "AU", "australia-southeast2": "AU", "europe-central2": "PL", "europe-north1": "FI", "europe-north2": "SE",
	"europe-southwest1": "ES", "europe-west1": "BE", "europe-west2": "GB", "europe-west3": "DE", "europe-west4": "NL", "europe-west6": "CH",
	"europe-west8": "IT", "europe-west9": "FR", "europe-west10": "DE", "europe-west12": "IT", "me-central1": "QA", "me-central2": "SA",
	"me-west1": "IL", "northamerica-northeast1": "CA", "northamerica-northeast2": "CA", "northamerica-south1": "MX",
	"southamerica-east1": "BR", "southamerica-west1": "CL",
}

// countryOf returns the country of a region, or "" for a region that is newer than the list.
func countryOf(region string) string {
	if strings.HasPrefix(region, "us-") {
		return "US"
	}
	return countries[region]
}
