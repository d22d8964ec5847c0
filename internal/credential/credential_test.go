package credential

import (
	"strings"
	"testing"
)

func TestIsNamed(t *testing.T) {
	for name, want := range map[string]bool{
		"HF_TOKEN": true, "HUGGING_FACE_HUB_TOKEN": true, "GITHUB_TOKEN": true, "TOKEN": true, "token": true, "GITHUBTOKEN": true, "HF_TOKEN_2": true, "TOKEN2": true, "authToken": true,
		"WANDB_API_KEY": true, "OPENAI_API_KEY": true, "AWS_SECRET_ACCESS_KEY": true, "apiKey": true, "WANDB_APIKEY": true, "SSH_PRIVATE_KEY": true, "PRIVATE_KEY_PEM": true, "ENCRYPTION_KEY": true,
		"KAGGLE_KEY": true, "AWS_SESSION_TOKEN": true, "CLIENT_SECRET": true, "SECRET": true, "APP_SECRETS": true, "SECRET_KEY_BASE64": true,
		"PASSWORD": true, "PGPASSWORD": true, "DB_PASSWORD": true, "db_password": true, "dbPassword": true, "MYSQL_PWD": true, "ROOT_PASSWD": true, "SSHPASS": true, "SMTP_PASS": true, "KEY_PASSPHRASE": true,
		"GCP_CREDENTIALS": true, "GCP_CREDENTIALS_JSON": true, "CREDENTIAL": true, "GITHUB_PAT": true,

		"": false, "_": false, "TOKENIZERS_PARALLELISM": false, "MAX_TOKENS": false, "TOKENS_PER_SECOND": false, "PAD_TOKEN": false, "eos_token": false, "COST_PER_TOKEN": false,
		"KEYBOARD": false, "KEY": false, "MONKEY": false, "HOTKEY": false, "PUBLIC_KEY": false, "SSH_PUBLIC_KEY": false, "SSH_KEY_PATH": false, "KEY_FILE": false, "PRIMARY_KEY": false, "CACHE_KEY": false,
		"AWS_ACCESS_KEY_ID": false, "AWS_SHARED_CREDENTIALS_FILE": false, "PASSWORD_FILE": false, "SECRET_NAME": false, "SECRETARY": false,
		"PWD": false, "OLDPWD": false, "BYPASS": false, "FORWARD_PASS": false, "COMPASS": false, "PAT": false, "FILE_PAT": false, "PATTERN": false,
		"PATH": false, "HOME": false, "CUDA_VISIBLE_DEVICES": false, "PYTHONUNBUFFERED": false, "WANDB_PROJECT": false, "NCCL_DEBUG": false, "AUTHOR": false,
	} {
		if got := IsNamed(name, "sk-93b1c7"); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// These values are no credentials, whatever the name.
func TestValues(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "8": false, "0.5": false, "1e-4": false, "true": false, "None": false, "off": false,
		"/root/.config/gcp.json": false, "/run/secrets/key": false, "~/.netrc": false, "./key.pem": false, "../k": false, "/etc": false, "/": false, "/Users/me/key": false, "/mnt": false,
		"sk-1": true, "hunter2": true, "1234567890123456": true, "-----BEGIN KEY-----": true, "/kQz8v+Abc=": true, "/KQzVvAbc": true, "/abcdefghijklmnopqrstuvwxyz0123456789abcd": true, "a/b": true, ".": false, "env://X": true,
	} {
		if got := IsNamed("API_KEY", value); got != want {
			t.Errorf("%s: %v", value, got)
		}
	}
}

// A word after the credential's makes it something else, and one before does not hide it.
func FuzzIsNamed(f *testing.F) {
	f.Add("WANDB", "sk-1")
	f.Add("a_B1", "/x")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, name, value string) {
		if IsNamed(name+"_FILE", value) || IsNamed(name+"_PATH", value) {
			t.Errorf("the name %q of a file", name)
		}
		if !strings.HasSuffix(strings.ToUpper(name), "_") && !isHarmless(value) && !IsNamed(name+"_PASSWORD", value) {
			t.Errorf("%q with %q is none", name+"_PASSWORD", value)
		}
	})
}
