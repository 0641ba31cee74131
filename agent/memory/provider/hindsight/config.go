package hindsight

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/settings"
	"hermesd/internal/secret"
)

// options are the settings of upstream's provider that have an effect here.
type options struct {
	mode, url       string
	key             secret.Value
	timeout         time.Duration
	bank, template  string // name of the owner's bank; template "": bank
	profile         string
	budget          string
	reflects        bool // recall asks for an answer of the bank's model
	maxTokens       int
	maxInput        int // characters of a query; 0: all
	maxResults      int // 0: all
	tags            []string
	match           string
	types           []string
	recalls, waits  bool
	retains, async  bool
	context, source string
	retainTags      []string
	user, assistant string // in front of their words
	scopes          any    // of observations; nil: the server's default
	memoryMode      string
}

// without are settings that only upstream's own daemon or terminal has.
var without = []string{
	"llm_provider", "llm_base_url", "llm_model", "llm_api_key", "llmApiKey", "profile", "idle_timeout", "port_health_grace_timeout",
	"recall_indicator", "retain_indicator", "prefetch_waits_for_retain", "prefetch_retain_drain_timeout",
}

// unsupported are settings that upstream knows and that have no effect here.
var unsupported = []string{
	"bank_mission", "bank_retain_mission", "recall_prompt_preamble", "recall_live_status_bypass", "recall_simple_budget", "recall_simple_max_words",
	"recall_document_tags", "recall_document_terms", "recall_document_tag_routes", "recall_document_types",
}

// load reads the first file that exists, of the Hermes home and of ~/.hindsight; the
// environment alone if there is none.
func load(s provider.Source) (o options, warnings []string, err error) {
	file, found, err := settings.Read(s.Planned, filepath.Join(s.Home, "hindsight", "config.json"))
	if home := cmp.Or(s.Getenv("HOME"), s.Getenv("USERPROFILE")); err == nil && !found && home != "" {
		file, found, err = settings.Read(s.Planned, filepath.Join(home, ".hindsight", "config.json"))
	}
	if err != nil {
		return o, nil, fmt.Errorf("hindsight: %w", err)
	}
	alone := func(name string) string {
		if found {
			return ""
		}
		return s.Getenv(name)
	}
	var old struct { // the form of the first versions
		Hermes struct {
			Bank    string `json:"bankId"`
			Budget  string `json:"budget"`
			Enabled any    `json:"enabled"`
		} `json:"hermes"`
	}
	if banks := file.Raw("banks"); banks != nil {
		_ = json.Unmarshal(banks, &old) // of another form: no old settings
	}
	file.Skip(without...)
	o = options{
		mode:     cmp.Or(file.Text("mode"), alone("HINDSIGHT_MODE"), "cloud"),
		url:      cmp.Or(file.Text("api_url"), s.Getenv("HINDSIGHT_API_URL")),
		key:      secret.Value(cmp.Or(file.Text("apiKey", "api_key"), s.Getenv("HINDSIGHT_API_KEY"))),
		bank:     cmp.Or(file.Text("bank_id"), old.Hermes.Bank, alone("HINDSIGHT_BANK_ID"), "hermes"),
		template: file.Text("bank_id_template"), profile: cmp.Or(s.Profile, "default"),
		budget:    oneOf(cmp.Or(file.Text("recall_budget", "budget"), old.Hermes.Budget, alone("HINDSIGHT_BUDGET")), "mid", "low", "high"),
		reflects:  file.Text("recall_prefetch_method", "prefetch_method") == "reflect",
		maxTokens: file.Int("recall_max_tokens", 4096), maxInput: file.Int("recall_max_input_chars", 800), maxResults: file.Int("recall_max_results", 0),
		tags: file.List("recall_tags"), match: cmp.Or(file.Text("recall_tags_match"), "any"), types: types(file.Raw("recall_types")),
		recalls: file.Bool("auto_recall", true), waits: file.Bool("recall_sync", false),
		retains: file.Bool("auto_retain", true), async: file.Bool("retain_async", true),
		context:    cmp.Or(file.Text("retain_context"), "conversation between Hermes Agent and the User"),
		source:     cmp.Or(file.Text("retain_source"), s.Getenv("HINDSIGHT_RETAIN_SOURCE")),
		user:       cmp.Or(file.Text("retain_user_prefix"), s.Getenv("HINDSIGHT_RETAIN_USER_PREFIX"), "User"),
		assistant:  cmp.Or(file.Text("retain_assistant_prefix"), s.Getenv("HINDSIGHT_RETAIN_ASSISTANT_PREFIX"), "Assistant"),
		memoryMode: oneOf(file.Text("memory_mode"), "hybrid", "context", "tools"),
	}
	o.retainTags = settings.List(first(file.Raw("retain_tags"), s.Getenv("HINDSIGHT_RETAIN_TAGS")))
	o.scopes = scopes(first(file.Raw("observation_scopes"), s.Getenv("HINDSIGHT_RETAIN_OBSERVATION_SCOPES")))
	o.timeout = time.Duration(file.Int("timeout", number(s.Getenv("HINDSIGHT_TIMEOUT"), 120))) * time.Second
	if n := file.Int("retain_every_n_turns", 1); n > 1 {
		warnings = append(warnings, "hindsight: retain_every_n_turns has no effect: every turn is stored")
	}
	for _, key := range unsupported {
		if set(file.Raw(key)) {
			warnings = append(warnings, fmt.Sprintf("hindsight: %s has no effect here", key))
		}
	}
	return o, append(warnings, file.Unknown()...), nil
}

// oneOf returns s if it is a known value, else the standard one.
func oneOf(s, standard string, others ...string) string {
	if slices.Contains(others, s) {
		return s
	}
	return standard
}

// first returns v, or text as a JSON value if v is not set.
func first(v json.RawMessage, text string) json.RawMessage {
	if set(v) {
		return v
	}
	v, _ = json.Marshal(text) // a string
	return v
}

func number(s string, standard int) int {
	o, err := settings.Parse("", fmt.Appendf(nil, `{"n":%q}`, s))
	if err != nil {
		return standard
	}
	return o.Int("n", standard)
}

// set reports whether a setting has a value that is not empty.
func set(v json.RawMessage) bool {
	return !slices.Contains([]string{"", `""`, "[]", "{}", "0", "false", "null"}, string(v))
}

// types returns the kinds of memories of a recall: observations, unless the file says
// otherwise; nil for all, which is an empty string there.
func types(v json.RawMessage) []string {
	if v == nil || string(v) == "[]" {
		return []string{"observation"}
	}
	return settings.List(v)
}

// scopes returns the observation_scopes of a retain: a word that the API knows, or lists
// of tags, of which one may be given without the outer list; nil if it is neither.
func scopes(v json.RawMessage) any {
	var text string
	if json.Unmarshal(v, &text) == nil {
		text = strings.TrimSpace(text)
		if slices.Contains([]string{"per_tag", "combined", "all_combinations"}, text) {
			return text
		}
		v = json.RawMessage(text)
	}
	v = bytes.TrimSpace(v)
	var entries []json.RawMessage
	if len(v) == 0 || v[0] != '[' || json.Unmarshal(v, &entries) != nil {
		return nil
	}
	var lists [][]string
	flat := true
	for _, e := range entries {
		list := settings.List(e)
		flat = flat && !strings.HasPrefix(string(e), "[")
		if len(list) > 0 {
			lists = append(lists, list)
		}
	}
	switch {
	case len(lists) == 0:
		return nil
	case flat:
		return [][]string{slices.Concat(lists...)}
	}
	return lists
}

// ownersBank returns the name of the owner's bank in a conversation.
func (o *options) ownersBank(s provider.Scope) string {
	if o.template == "" {
		return o.bank
	}
	name := strings.NewReplacer("{profile}", segment(o.profile), "{workspace}", "hermes", "{platform}", segment(s.Platform),
		"{user}", segment(s.UserID), "{session}", segment(s.Session)).Replace(o.template)
	if strings.ContainsAny(name, "{}") {
		return o.bank // a placeholder that upstream does not know
	}
	for _, double := range []string{"--", "__"} {
		for strings.Contains(name, double) {
			name = strings.ReplaceAll(name, double, double[1:])
		}
	}
	return cmp.Or(strings.Trim(name, "-_"), o.bank)
}

// segment returns text as a part of a bank's name: other characters than letters,
// digits, - and _ are replaced by one hyphen.
func segment(s string) string {
	out := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) {
			return r
		}
		return ' '
	}, s)
	return strings.Trim(strings.Join(strings.Fields(out), "-"), "-_")
}
