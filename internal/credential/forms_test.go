package credential

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// letters returns so many letters and digits, which no secret scanner takes for a service's.
func letters(n int) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(n)))
	text := "a7" + strings.NewReplacer("-", "Q", "_", "z").Replace(base64.RawURLEncoding.EncodeToString(bytes.Repeat(sum[:], n/32+1)))
	return text[:n]
}

func digits(n int, alphabet string) string {
	var b strings.Builder
	sum := sha256.Sum256([]byte(alphabet))
	for i := range n {
		b.WriteByte(alphabet[int(sum[i%32]+byte(i/32))%len(alphabet)])
	}
	return b.String()
}

var (
	hexDigits = func(n int) string { return digits(n, "0123456789abcdef") }
	capitals  = func(n int) string { return digits(n, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") }
	jwt       = "eyJhbGciOiJIUzI1NiJ9." + letters(40) + "." + letters(43)
)

// credentialForms are texts as programs print and write them. What is between « and » must go, and the rest must stay.
var credentialForms = []string{
	// variables and settings
	"export WANDB_API_KEY=«" + hexDigits(40) + "»",
	"HF_TOKEN: «" + letters(20) + "»",
	"COMET_API_KEY=«" + letters(25) + "» python train.py",
	"os.environ[\"NEPTUNE_API_TOKEN\"] = \"«" + letters(60) + "=»\"",
	"wandb.login(key=\"«" + hexDigits(40) + "»\")",
	"wandb_key: «" + hexDigits(40) + "»",
	"wandb: «" + hexDigits(40) + "»",
	"Experiment(api_key='«" + letters(25) + "»', project='x')",
	"mlflow: MLFLOW_TRACKING_PASSWORD=«hunter22»",
	"clearml.conf: secret_key: \"«" + letters(50) + "»\"",
	"aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG+bPxRfiCYzzzzzzzzzz»",
	"AWS_SESSION_TOKEN=«IQoJb3JpZ2luX2VjE" + letters(50) + "==»",
	"{\"password\": \"«correct horse battery staple»\", \"user\": \"joe\"}",
	"{'token': '«" + letters(10) + "»', 'epochs': 3}",
	"password = «hunter2»",
	"password: «hunter2,with;odd)chars»",
	"PASSWORD=«84736251»",
	"db.password=«p&ss,w0rd» next",
	"<password>«zanderfisch»</password>",
	"connect(host='h', passwd=b'«zanderfisch»')",
	"Server=tcp:h;User ID=joe;Password=«s3cret!»;Encrypt=true",
	"user=joe pass=«zanderfisch» host=h",
	"DefaultEndpointsProtocol=https;AccountName=a;AccountKey=«" + letters(80) + "==»;EndpointSuffix=core.windows.net",
	"Endpoint=sb://h/;SharedAccessKeyName=r;SharedAccessKey=«" + letters(40) + "=»",
	"api_key => «" + letters(12) + "»",
	"Using API key: «" + letters(12) + "»",
	"the api-key «" + letters(12) + "» is used",
	"client_secret: «" + letters(3) + "8Q~" + letters(34) + "»",
	"found «" + "abc8Q~" + letters(34) + "»",
	"client-key-data: «" + base64.StdEncoding.EncodeToString([]byte("-----BEGIN RSA PRIVATE "+"KEY-----\n"+letters(200))) + "»",
	// words
	"the password is «hunter2»",
	"sudo password «hunter2» was wrong",
	"machine api.wandb.ai login user password «zanderfisch»",
	"machine h\n  login joe\n  password «zanderfisch»\n",
	"password «zanderfisch»", "log in with password «zanderfisch», then", "passwd «zanderfisch»",
	"wandb login «" + hexDigits(40) + "»",
	"wandb login --relogin «" + hexDigits(40) + "»",
	"huggingface-cli login --token «" + letters(30) + "»",
	"the secret is «" + letters(10) + "»", "password is: «zanderfisch»", "Password for joe: «hunter2»", "PASS=«hunter2»", "pass = «" + letters(20) + "»", "openssl enc -pass pass:«hunter22»", "{\"username\":\"joe\",\"key\":\"«" + hexDigits(32) + "»\"}",
	"JSESSIONID=«" + letters(32) + "»; x", "get(u, cookies=«{'session': '" + letters(32) + "'})»", "oauth_signature=\"«" + letters(28) + "»\"", "a «NzkyNzE1NDU0MTk2MDg4ODQy.X-hvzA." + letters(27) + "»",
	// options
	"http -a joe:«hunter22» GET h", "ldapsearch -w «hunter22» -D cn=x", "smbclient -U joe%«hunter22» //h/x", "7z x -p«hunter22» a.7z", "unzip -P «hunter22» a.zip", "psql 'host=h user=joe password=«hunter22» dbname=x'",
	"tool --password «zanderfisch» run", "tool --password=«zanderfisch» run", "tool --api-key «abcdef123» run", "tool --token=«xyz789abc»", "tool --auth-token \"«zanderfisch 12»\"",
	"curl -u joe:«zanderfisch» https://h/x", "curl --user joe:«zanderfisch» https://h/x", "curl -u «" + letters(30) + "»: https://h/x", "['curl', '-u', 'joe:«zanderfisch»']",
	"docker login -u joe -p «zanderfisch» registry.example", "sshpass -p «zanderfisch» ssh joe@h", "sshpass -p«zanderfisch» ssh joe@h", "mysql -u root -p«zanderfisch» db", "twine upload -u joe -p «zanderfisch» dist/*",
	"redis-cli -h h -a «zanderfisch» ping",
	// headers
	"Authorization: «Bearer abc.DEF»", "-H \"Authorization: «Basic YWxhZGRpbjpvcGVuc2VzYW1l»\" https://h/x", "{'Authorization': '«token abcdef0123»', 'Accept': '*/*'}",
	"map[Accept:[*/*] Authorization:[«Bearer abcdef»]]", "proxy-authorization: «Basic am9lOnBhc3M=»", "Authorization: «AWS4-HMAC-SHA256 Credential=AKIAABCDEFGHIJ234567/20261128/us-east-1/s3/aws4_request, Signature=" + hexDigits(64) + "»",
	"Authorization: «Digest username=\"joe\", response=\"" + hexDigits(32) + "»\"\nHost: h",
	"got Basic «YWxhZGRpbjpvcGVuc2VzYW1l»", "x-api-key: «abcdef»", "X-Auth-Token: «abcdef0»", "PRIVATE-TOKEN: «abcdef0»",
	"Cookie: «sid=abcdef; theme=dark»", "set-cookie: «session=abc.def; Path=/; HttpOnly»", "\"Set-Cookie\": \"«session=abcdef; Path=/»\"",
	// addresses
	"git clone https://joe:«pa55w0rd»@host/x", "redis://:«zanderfisch»@host:6379/0", "https://«" + letters(36) + "»@github.com/o/r", "git remote: https://oauth2:«zanderfisch»@gitlab.example/o/r.git",
	"pip install --index-url https://joe:«s3cr:t/with@odd&chars,»@pypi.example/simple x", "index-url = https://__token__:«zanderfisch»@pypi.example/simple", "postgres://joe:«sword%2Ffish»@db/x?sslmode=require",
	"joe:«zanderfisch1»@tcp(db:3306)/x", "proxy joe:«sword-fish»@proxy.example:3128", "https://joe%3A«zanderfisch»@host/x",
	"http://localhost:8888/lab?token=«" + hexDigits(48) + "»", "https://h/x?apikey=«zanderfisch»&q=1", "https://h/x?access_token=«" + letters(20) + "»#y",
	"https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=«" + hexDigits(64) + "»", "https://storage.googleapis.com/b/o?X-Goog-Signature=«" + hexDigits(128) + "»&x=1",
	"https://d.cloudfront.net/o?Expires=1&Signature=«" + letters(50) + "~»&Key-Pair-Id=K", "https://a.blob.core.windows.net/c/b?sv=2024&sig=«" + letters(30) + "%2Bx%3D»&se=2026",
	"https://conda.anaconda.org/t/«jo-" + letters(20) + "/channel»", "https://«" + hexDigits(32) + "»@o1.ingest.sentry.io/2",
	// webhooks
	"https://hooks.slack.com/services/«T00000000/B00000000/" + letters(24) + "»", "https://discord.com/api/webhooks/«123456789012345678/" + letters(68) + "»",
	"https://api.telegram.org/bot«123456789:AA" + letters(33) + "/sendMessage»", "bot token «123456789:AA" + letters(33) + "»",
	"https://x.webhook.office.com/webhookb2/«" + letters(36) + "@" + letters(36) + "/IncomingWebhook/" + letters(32) + "»", "https://chat.example/hooks/«" + digits(26, "abcdefghijkmnopqrstuvwxyz0123456789") + "»",
	"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=«" + letters(36) + "»", "https://oapi.dingtalk.com/robot/send?access_token=«" + hexDigits(64) + "»",
	// tokens of services
	"a «hf_" + letters(34) + "» b", "a «ghp_" + letters(36) + "», b", "a «gho_" + letters(36) + "»", "a «ghs_" + letters(36) + "»", "a «ghu_" + letters(36) + "»", "a «github_pat_" + letters(22) + "_" + letters(59) + "»",
	"a «glpat-" + letters(20) + "»", "a «pypi-AgEIcHlwaS5vcmc" + letters(60) + "»", "a «npm_" + letters(36) + "»", "a «dckr_pat_" + letters(27) + "»",
	"a «sk-" + letters(48) + "»", "a «sk-proj-" + letters(40) + "»", "a «sk-ant-api03-" + letters(90) + "»", "a «gsk_" + letters(52) + "»", "a «nvapi-" + letters(64) + "»", "a «r8_" + letters(37) + "»",
	"a «lsv2_pt_" + hexDigits(32) + "_" + hexDigits(10) + "»", "a «wandb_v1_" + letters(40) + "»", "a «local-" + hexDigits(40) + "»",
	"a «AKIA" + capitals(16) + "» b", "a «ASIA" + capitals(16) + "»", "«AKIA" + capitals(16) + ", wJalrXUtnFEMI/K7MDENG+bPxRfiCYzzzzzzzzzz»",
	"a «AIza" + letters(35) + "»", "a «ya29." + letters(60) + "»", "a «1//0" + letters(60) + "»", "a «GOCSPX-" + letters(28) + "»", "a «dop_v1_" + hexDigits(64) + "»", "a «rpa_" + letters(40) + "»",
	"a «dapi" + hexDigits(32) + "»", "a «hvs." + letters(90) + "»", "a «tskey-auth-" + letters(20) + "»", "a «ak-" + letters(22) + "» «as-" + letters(22) + "»",
	"a «xoxb-123456789012-123456789012-" + letters(24) + "»", "a «xoxp-1-" + letters(24) + "»", "a «xapp-1-A-" + letters(24) + "»", "a «SG." + letters(22) + "." + letters(43) + "»", "a «glsa_" + letters(32) + "_" + hexDigits(8) + "»",
	"a «" + jwt + "» b", "sent bearer «" + letters(20) + "», and",
	// Docker
	"{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"«am9lOnphbmRlcmZpc2No»\"}}}", "{\"identitytoken\": \"«" + letters(40) + "»\"}", "//registry.npmjs.org/:_authToken=«" + letters(36) + "»", "_auth=«am9lOnphbmRlcmZpc2No»",
	// service accounts
	"{\"type\": \"service_account\", \"private_key\": \"«-----BEGIN PRIVATE " + "KEY-----\\n" + letters(64) + "\\n-----END PRIVATE " + "KEY-----\\n»\"}", "{\"refresh_token\": \"«" + letters(20) + "»\"}",
	"-----BEGIN PGP PRIVATE " + "KEY BLOCK-----\n\n«" + letters(64) + "»\n-----END PGP PRIVATE " + "KEY BLOCK-----",
}

// harmless texts stay as they are: a report without them is worth nothing.
var harmless = []string{
	"nothing to see: key, token, password", "commit " + hexDigits(40) + " of main", "sha256:" + hexDigits(64) + "  model.safetensors", hexDigits(64) + "  data/train.tar", "pytorch/pytorch@sha256:" + hexDigits(64),
	"step=12000/20000 loss=0.4312 tokens=4096 tokens_per_second=81234.5", "gputrain: step=3/16 loss=0.4", "token 151643 -> <|endoftext|>", "eos_token='<|endoftext|>', pad_token=<pad>", "max_tokens: 4096",
	"/home/joe/.ssh/id_ed25519 /data/keys/shard-00012.bin", "Saved checkpoint to /mnt/ckpt/step-0012000/model.pt", "File \"/usr/lib/python3.12/site-packages/torch/nn/modules/module.py\", line 1553, in _wrapped_call_impl",
	"KeyError: 'password'", "RuntimeError: Missing key(s) in state_dict: \"model.layers.0.weight\", \"model.layers.0.bias\".", "d = {\"key\": \"weight\", \"value\": 3}", "hostKey: SHA256:" + letters(43), "cache key: " + hexDigits(32),
	"login failed for user root", "Last login: Mon Nov 23 10:00:00 2026 from 10.0.0.1", "password authentication failed for user \"joe\"", "the password is required", "Password change of joe", "a password prompt", "Enter password:", "passwordless sudo is on", "the bearer of news; basic authentication failed",
	"git@github.com:gputrain/gputrain.git", "https://github.com/gputrain/gputrain/commit/" + hexDigits(40), "ssh://git@host:2222/x/y", "mail joe@example.com or mailto:joe.b1@example.com", "https://registry.npmjs.org:443/@scope/pkg",
	"python -u train.py --lr 3e-4 -p 4", "mkdir -p /data/out", "docker run -u 1000:1000 -p 8080:80 image", "ssh -p 2222 root@10.0.0.7", "sort -u -p names.txt",
	"0000:3b:00.0 NVIDIA H100 80GB HBM3, 81559 MiB, 61 C", "NCCL WARN Call to connect returned Connection refused 10.0.0.3<43661>", "2026-11-28T17:00:00Z node 3 at 203.0.113.7:22 is i-0abc123def4567890",
	"asia-northeast1-docker.pkg.dev/p/r/image:tag", "hf_hub_download(repo_id=x), hf_transfer is off", "sk-learn-contrib-extras-2026 is installed", "s3://bucket/key/part-00001.parquet", "uuid 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
	"{\"loss_token\":0.12345678901234567,\"x\":1}", "{\"a_secret\":null}", "{\"token\": true, \"secret\": \"\"}", "PAD_TOKEN=[unused1], host_key: SHA256:abcdefghi", "PUBLIC_KEY=ssh-ed25519 AAAA", "password_file: /run/secrets/pg", "--password-stdin",
	"authors: Bob, Carol", "author: joe", "compass=north", "PASSED tests/test_x.py::test_y", "pass: 12 of 13", "monkey=banana1 keyboard=qwerty12", "wandb: Syncing run brisk-sun-12", "wandb: run commit is " + hexDigits(40),
	"Epoch 3: 100%|██| 12/12 [00:10<00:00, 1.2it/s, loss=0.4]", "past_key_values: None, use_cache=True", "grad_norm=nan; key=q_proj; sim=0.3", "forward pass: 12.3 ms, backward pass: 20.1 ms", "special_tokens_map={'pad_token': '[PAD]'}",
	"joe@node-3:~/project$ python train.py", "rsync -avz -e 'ssh -p 2222' joe@host:/x/y .", "torchrun --rdzv-endpoint=10.0.0.1:29500 --rdzv-id 123456789", "12:30:45@host.example.com", "pkg:pypi/torch@2.4.0", "run id 1a2b3c4d, session=train-2026-11-28",
	"wandb: Currently logged in as: joe. Use `wandb login --relogin` to force relogin", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + letters(43) + " joe@host", "PASS: TestX1", "pwd: /home/joe", "pass=3 fail=0", "cookies: 3 are set",
	"(signature=(int, str) -> None)", "https://h/x?sv=2024-11-04&se=2026-11-29&sp=r", "secret santa of 2026",
}

var marked = regexp.MustCompile(`(?s)«(.*?)»`)

func TestCredentialsAreFound(t *testing.T) {
	for _, form := range credentialForms {
		if !strings.Contains(form, "«") {
			continue
		}
		in := marked.ReplaceAllString(form, "$1")
		want := marked.ReplaceAllString(form, Redacted)
		if got := redact(t, nil, in, func() int { return len(in) }); got != want {
			t.Errorf("%q becomes\n\t%q, want\n\t%q", in, got, want)
		}
		// In the formats of bundles and reports as well nothing of it is left.
		same := func(s string) string { return s }
		asJSON := func(s string) string { return inJSON(s, false) }
		for format, f := range map[string]struct {
			encode        func(string) string
			before, after string
		}{
			"JSON": {asJSON, `{"time":"2026-11-28T17:00:00Z","text":"`, `","n":1}`}, "Go's JSON": {func(s string) string { return inJSON(s, true) }, `{"text":"`, `"}`},
			"JSON in JSON": {func(s string) string { return asJSON(asJSON(s)) }, `{"text":"{\"text\":\"`, `\"}"}`}, "HTML": {html.EscapeString, "<td>", "</td>"},
			"code": {same, "| ``", "`` | x |"}, "a log": {same, "12:00:01 node 3 | ", " |"},
		} {
			text := f.before + f.encode(in) + f.after
			got := redact(t, nil, text, func() int { return 1 + len(text)/3 })
			if strings.Contains(format, "JSON") && !json.Valid([]byte(got)) {
				t.Errorf("%s: %q is no JSON any more: %q", format, text, got)
			}
			for _, m := range marked.FindAllStringSubmatch(form, -1) {
				if part := f.encode(m[1]); strings.Contains(got, part[len(part)/2:]) || strings.Contains(got, part[:len(part)/2+1]) {
					t.Errorf("%s: of %q is left %q", format, in, got)
				}
			}
		}
	}
}

func TestHarmlessTextsStay(t *testing.T) {
	for _, in := range harmless {
		if got := redact(t, nil, in, func() int { return len(in) }); got != in {
			t.Errorf("%q becomes %q", in, got)
		}
		text := `{"text":"` + inJSON(in, false) + `"}`
		if got := redact(t, nil, text, func() int { return len(text) }); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// A known secret is found in whatever form a program prints it.
func TestKnownSecretsInAllForms(t *testing.T) {
	for _, secret := range []string{"s3cr+t/V@lue&<1>'2'", "zanderfisch", "nöt-ascii-пароль", `back\slash "quoted"`} {
		for name, environ := range map[string]string{"a name": "MY_PASSWORD=" + secret, "an address": "DATABASE_URL=postgres://joe:" + url.PathEscape(secret) + "@db/x"} {
			for form, text := range map[string]string{
				"plain": secret, "JSON": inJSON(secret, false), "Go's JSON": inJSON(secret, true), "JSON in JSON": inJSON(inJSON(secret, false), false), "HTML": html.EscapeString(secret),
				"Go": strconv.Quote(secret), "a query": url.QueryEscape(secret), "a path": url.PathEscape(secret), "small digits": strings.ToLower(url.PathEscape("/")) + lowerEscapes(url.PathEscape(secret)),
				"hex": hex.EncodeToString([]byte(secret)), "HEX": fmt.Sprintf("%X", secret), "base64": base64.StdEncoding.EncodeToString([]byte(secret)), "base64 without =": base64.RawStdEncoding.EncodeToString([]byte(secret)),
				"base64 of addresses": base64.URLEncoding.EncodeToString([]byte(secret)), "a header": base64.StdEncoding.EncodeToString([]byte("joe:" + secret)), "a header of another": base64.StdEncoding.EncodeToString([]byte("bob1:" + secret + "\n")),
				"in base64": base64.RawURLEncoding.EncodeToString([]byte(`{"a":"` + secret + `"}`)),
			} {
				in := "x(" + text + ")y"
				got := redact(t, []string{environ}, in, func() int { return 5 })
				if !strings.Contains(got, Redacted) || len(got) > len(Redacted)+len("x()y")+16 && !strings.Contains(form, "base64") {
					t.Errorf("%s from %s: %q becomes %q", form, name, in, got)
				}
				for i := 0; i+9 <= len(text); i++ { // what is left is no part of it that can be read
					if part := text[i : i+9]; strings.Contains(got, part) && !strings.Contains("joe:bob1:"+base64.RawURLEncoding.EncodeToString([]byte(`{"a":"`))+"am9lOgYm9iMTo", part) {
						t.Errorf("%s from %s: %q of %q is left in %q", form, name, part, text, got)
						break
					}
				}
			}
		}
	}
}

// Only variables that are credentials are learnt, and passwords in any address.
func TestKnown(t *testing.T) {
	known := Known([]string{"HF_TOKEN=abcdef1", "PATH=/usr/bin", "PGPASSWORD=zanderfisch", "SORT_KEY=accuracy", "EDITOR=vim-editor", "PIP_INDEX_URL=https://joe:s3cr%2Ft@h/simple", "X=ghp_" + letters(36), "SHORT_TOKEN=abc", "MY_TOKEN=/run/secrets/token", "N_TOKEN=123456"})
	in := "abcdef1 /usr/bin zanderfisch accuracy vim-editor s3cr%2Ft s3cr/t ghp_" + letters(36) + " abc /run/secrets/token 123456"
	want := "[redacted] /usr/bin [redacted] accuracy vim-editor [redacted] [redacted] [redacted] abc /run/secrets/token 123456"
	if got := known.Remove(in); got != want {
		t.Errorf("%q becomes\n%q, want\n%q", in, got, want)
	}
}

// The time grows with the length of a text alone, whatever a node writes: within a few microseconds for each byte.
func BenchmarkHostileTexts(b *testing.B) {
	for _, piece := range []string{"harmless words\n", "key=", "password:", "a_token=/x/", "cookie:", "://", "a:b@", "eyj=", "-u x:", " -p", "sk-", "login ", "sig=", "-----BEGIN PRIVATE KEY-----", "AKIA", ",-u", "\\\"token\\\":", "password \"", "hf_."} {
		b.Run(strconv.Quote(piece), func(b *testing.B) {
			text := []byte(strings.Repeat(piece, 1<<20/len(piece)))
			b.SetBytes(int64(len(text)))
			known := Known(environ)
			for b.Loop() {
				w := NewWriter(io.Discard, known)
				w.Write(text)
				w.Close()
			}
		})
	}
}
