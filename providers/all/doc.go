// Package all makes every provider by its name, for configuration files and command lines:
//
//	provider, err := all.New("vastai", map[string]any{"MinCUDA": 12.4, "Geolocation": []string{"EU"}})
//
// A file with several accounts, of one cloud or of many, becomes providers by the names that its
// author gave them:
//
//	accounts, err := all.Accounts(map[string]map[string]any{
//		"work": {"provider": "vastai", "api_key": "env://VAST_WORK"},
//		"own":  {"provider": "vastai", "api_key": "env://VAST_OWN"},
//	})
//	provider, err := accounts.Provider("work")
//
// A program that imports it links every cloud's client, which is some 40 MB and takes minutes
// to build from scratch. Package providers/light has all providers except aws, gcp and
// kubernetes, and builds in seconds. A program for known clouds imports their packages and writes their Config,
// which the compiler checks.
package all
