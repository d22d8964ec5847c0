package credential

import (
	"encoding/base64"
	"slices"
	"strings"
)

// A kind of token is known by how it begins.
type token struct {
	prefix string
	least  int             // characters after the prefix
	is     func(byte) bool // what they are
	// odd says that a name of a program can begin alike: a token has digits, and capital letters or nothing but letters and digits.
	odd bool
}

func isDotted(c byte) bool { return isWord(c) || c == '.' }

func isPadded(c byte) bool { return isDotted(c) || c == '=' || c == '/' || c == '+' }

// tokenKinds are the tokens of services that people use in trainings.
func tokenKinds() (all []token) {
	add := func(least int, is func(byte) bool, odd bool, prefixes ...string) {
		for _, p := range prefixes {
			all = append(all, token{p, least, is, odd})
		}
	}
	// Sources, packages, containers.
	add(16, isWord, false, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-",
		"pypi-ag", "npm_", "rubygems_", "dckr_pat_", "dckr_oat_", "atatt3", "atctt3", "atbb")
	// Hubs and models.
	add(16, isAlnum, true, "hf_", "api_org_", "r8_", "gsk_", "xai-", "fw_", "pplx-", "kgat_", "tgp_v1_", "jina_", "esecret_")
	add(16, isWord, true, "sk-", "sess-", "nvapi-", "sk_live_", "sk_test_", "rk_live_", "whsec_")
	// Trackers.
	add(16, isWord, true, "wandb_v1_", "lsv2_", "ls__", "pk-lf-", "local-")
	add(16, isPadded, true, "eyj") // also every JSON Web Token, and Neptune's
	// Clouds.
	add(16, isWord, true, "dop_v1_", "doo_v1_", "dor_v1_", "rpa_", "aiza", "gocspx-", "ltai", "akid", "aqvn", "dapi", "hrku-", "fo1_", "vcp_", "nfp_", "sbp_", "pscale_tkn_", "pscale_pw_", "tskey-", "pul-", "ops_")
	add(16, isDotted, true, "ya29.", "1//0", "t1.", "sg.", "hvs.", "hvb.", "hvr.", "dp.pt.")
	add(16, isPadded, true, "fm2_")
	add(22, isAlnum, true, "ak-", "as-") // Modal
	// Chats and others.
	add(10, isWord, false, "xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxe.xox", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-")
	add(16, isWord, true, "glsa_", "glc_", "nrak-", "sntrys_", "sntryu_", "lin_api_", "ntn_", "secret_", "figd_", "pmak-", "shpat_", "age-secret-key-1", "napi_")
	return all
}

// addresses are the beginnings of addresses whose rest lets whoever has it in.
var addresses = []string{
	"hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/", "api.telegram.org/bot",
	"api.telegram.org/file/bot", "webhook.office.com/webhookb2/", "outlook.office.com/webhook/", "open.feishu.cn/open-apis/bot/v2/hook/", "open.larksuite.com/open-apis/bot/v2/hook/",
	"hooks.zapier.com/hooks/catch/", "hc-ping.com/", "conda.anaconda.org/t/", "/with/key/",
}

// tokens are the anchors of tokens that are known by how they begin.
func tokens() (all []anchor) {
	for _, k := range tokenKinds() {
		all = append(all, anchor{k.prefix, k.find})
	}
	for _, word := range addresses {
		all = append(all, anchor{word, restOfAddress})
	}
	for _, word := range []string{"akia", "asia", "abia", "acca"} {
		all = append(all, anchor{word, accessKey})
	}
	return append(all, anchor{":a", chatBot}, anchor{".", discordBot}, anchor{"ls0tls1crudjti", encodedKey}, anchor{"/hooks/", hook}, anchor{"8q~", clientSecret})
}

func (k token) find(s string, begin, end int) (match, bool) {
	if begin > 0 && (isWord(s[begin-1]) || s[begin-1] == '.') {
		return match{}, false
	}
	last := run(s[:min(len(s), end+mostTold)], end, k.is)
	body := strings.TrimRight(s[end:last], ".-_/")
	if len(body) < k.least || k.odd && !strings.ContainsAny(body, "0123456789") || last < len(s) && isWord(s[last]) && k.odd {
		return match{}, false
	}
	if k.odd && !strings.ContainsAny(body, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		parts := strings.FieldsFunc(body, func(r rune) bool { return strings.ContainsRune("-_./", r) })
		if !slices.ContainsFunc(parts, func(part string) bool { return isRandom(part, 10) }) {
			return match{}, false // words
		}
	}
	if last == end+mostTold {
		return match{begin, begin, run(s, end, k.is)}, true
	}
	return match{begin, begin, end + len(body) + run(s[end+len(body):last], 0, func(c byte) bool { return c == '-' || c == '_' })}, true
}

// accessKey finds the access keys of AWS, which are 20 capital letters and digits, and the secret key beside one.
func accessKey(s string, begin, end int) (match, bool) {
	last := run(s[:min(len(s), begin+21)], begin, func(c byte) bool { return 'A' <= c && c <= 'Z' || isDigit(c) })
	if last-begin != 20 || begin > 0 && isWord(s[begin-1]) {
		return match{}, false
	}
	at := run(s, last, func(c byte) bool { return strings.IndexByte(" \t,:;|\"'\\/", c) >= 0 })
	if key := run(s, at, isBase64); at > last && at-last <= 8 && key-at == 40 {
		return match{begin, begin, key}, true
	}
	return match{begin, begin, last}, true
}

// restOfAddress finds what follows in an address.
func restOfAddress(s string, begin, end int) (match, bool) {
	last := run(s, end, func(c byte) bool { return isDotted(c) || strings.IndexByte("/:@%=", c) >= 0 })
	return match{begin, end, last}, last-end >= 16
}

// chatBot finds the tokens of Telegram's bots: "123456789:AA...".
func chatBot(s string, begin, end int) (match, bool) {
	from := run0(s, begin)
	last := run(s, begin+1, isWord)
	if digits := run(s, from, isDigit); digits != begin || begin-from < 8 || begin-from > 10 || last-begin-1 < 33 || last-begin-1 > 37 {
		return match{}, false
	}
	return match{from, from, last}, true
}

// discordBot finds the tokens of Discord's bots, whose first part is a number in base64.
func discordBot(s string, begin, end int) (match, bool) {
	from := run0(s, begin)
	if begin-from < 23 || begin-from > 30 {
		return match{}, false
	}
	middle := run(s, end, isWord)
	if middle-end != 6 || middle == len(s) || s[middle] != '.' {
		return match{}, false
	}
	last := run(s, middle+1, isWord)
	return match{from, from, last}, last-middle-1 >= 27
}

// encodedKey finds base64 of a private key, as a kubeconfig has it.
func encodedKey(s string, begin, end int) (match, bool) {
	plain, err := base64.StdEncoding.DecodeString(s[begin:min(begin+48, len(s))])
	if err != nil || !strings.Contains(string(plain), "PRIVATE") {
		return match{}, false
	}
	return match{begin, begin, run(s, begin, isBase64)}, true
}

// hook finds the addresses of Mattermost's webhooks, which end with 26 letters and digits.
func hook(s string, begin, end int) (match, bool) {
	last := run(s, end, isAlnum)
	return match{begin, end, last}, last-end == 26
}

// clientSecret finds the secrets of Azure's applications, which have "8Q~" after three characters.
func clientSecret(s string, begin, end int) (match, bool) {
	from := run0(s, begin)
	last := run(s, end, func(c byte) bool { return isDotted(c) || c == '~' })
	return match{from, from, last}, begin-from == 3 && last-end >= 30
}
