package light_test

import (
	"fmt"

	"github.com/gputrain/gputrain/providers/light"
)

func Example() {
	provider, err := light.New("vastai", map[string]any{"min_reliability": 0.99, "geolocation": []string{"EU"}})
	fmt.Println(provider.Name(), err)
	_, err = light.New("aws", nil)
	fmt.Println(err)
	// Output:
	// vastai <nil>
	// invalid: provider "aws" is not in package light: it links its vendor's client, and is in package providers/all
}

func ExampleAccounts() {
	accounts, err := light.Accounts(map[string]map[string]any{
		"work": {"provider": "lambda", "api_key": "env://LAMBDA_WORK"},
		"own":  {"provider": "lambda", "api_key": "env://LAMBDA_OWN"},
	})
	fmt.Println(accounts.Names(), err)
	provider, err := accounts.Provider("work")
	fmt.Println(provider.Name(), err)
	_, err = accounts.Provider("school")
	fmt.Println(err)
	// Output:
	// [own work] <nil>
	// lambda <nil>
	// not found: there is no account "school"; there are own, work
}

// A settings file that this computer's user wrote may name commands.
func ExampleAllowCommands() {
	settings := map[string]any{"api_key": "cmd://op read op://cloud/vast/key"}
	_, err := light.New("vastai", settings)
	fmt.Println(err)
	_, err = light.New("vastai", settings, light.AllowCommands())
	fmt.Println(err)
	// Output:
	// vastai: configure: invalid: APIKey begins with cmd://, which this computer runs as a command; if the settings are trusted to run programs here, give New light.AllowCommands()
	// <nil>
}

// A program that links package light can say which providers need package all.
func ExampleElsewhere() {
	fmt.Println(light.Elsewhere())
	// Output: [aws gcp kubernetes]
}
