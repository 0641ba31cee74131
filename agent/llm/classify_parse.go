package llm

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/internal/lazyregexp"
)

// An errorInfo holds what was found in the body of an error response.
type errorInfo struct {
	message string // for people
	text    string // all text that may decide the class, lower case
	kind    string // type or textual code, lower case
	code    int    // code as a number
	reset   string // X-RateLimit-Reset as forwarded by a router
}

// errorBody is the union of the error formats of the services.
type errorBody struct {
	Error    json.RawMessage `json:"error"`
	Message  json.RawMessage `json:"message"`
	Msg      string          `json:"msg"`
	ErrorMsg string          `json:"error_message"`
	Detail   json.RawMessage `json:"detail"`
	Type     string          `json:"type"`
	Code     json.RawMessage `json:"code"`
	Metadata struct {
		Raw     json.RawMessage `json:"raw"`
		Headers map[string]any  `json:"headers"`
	} `json:"metadata"`
}

// maxBody is the part of a body that is inspected, in bytes.
const maxBody = 64 << 10

func parseBody(body []byte) errorInfo {
	if len(body) > maxBody {
		body = body[:maxBody]
	}
	var s errorInfo
	s.read(body, 0)
	if s.text == "" {
		s.text = plainText(string(body))
		s.message = s.text
	}
	s.text = strings.ToLower(s.text)
	s.message = sanitize(s.message)
	return s
}

// read collects what it understands of body and of the errors nested in it.
func (s *errorInfo) read(body []byte, depth int) {
	if depth > 8 {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil {
		for _, b := range list[:min(len(list), 4)] {
			s.read(b, depth+1)
		}
		return
	}
	var str string
	if json.Unmarshal(body, &str) == nil {
		if strings.HasPrefix(strings.TrimSpace(str), "{") {
			s.read([]byte(str), depth+1)
			return
		}
		s.add(str)
		return
	}
	var b errorBody
	if json.Unmarshal(body, &b) != nil {
		return
	}
	s.addCodes(b)
	for _, inner := range []json.RawMessage{b.Error, b.Message, b.Detail, b.Metadata.Raw} {
		if len(inner) > 0 && string(inner) != "null" {
			s.read(inner, depth+1)
		}
	}
	s.add(b.Msg)
	s.add(b.ErrorMsg)
}

// addCodes keeps the innermost type and code.
func (s *errorInfo) addCodes(b errorBody) {
	for k, v := range b.Metadata.Headers {
		if reset, ok := v.(string); ok && strings.EqualFold(k, "X-RateLimit-Reset") {
			s.reset = reset
		}
	}
	if b.Type != "" && b.Type != "error" {
		s.kind = strings.ToLower(b.Type)
		s.text += " " + b.Type
	}
	var n int
	var word string
	switch {
	case len(b.Code) == 0:
	case json.Unmarshal(b.Code, &n) == nil:
		s.code = n
	case json.Unmarshal(b.Code, &word) == nil:
		if v, err := strconv.Atoi(word); err == nil {
			s.code = v
			break
		}
		if statusOfKind[strings.ToLower(word)] != 0 {
			s.kind = strings.ToLower(word)
		}
		s.text += " " + word
	}
}

func (s *errorInfo) add(sentence string) {
	sentence = strings.TrimSpace(sentence)
	if sentence == "" || strings.Contains(s.text, sentence) {
		return
	}
	s.text += " " + sentence
	if s.message != "" {
		s.message += ": "
	}
	s.message += sentence
}

var (
	title = lazyregexp.New(`(?is)<title[^>]*>(.*?)</title>`)
	tags  = lazyregexp.New(`(?s)<[^>]*>`)
	space = lazyregexp.New(`\s+`)
	// keyLike matches what looks like a key, also when the service masked a part of it.
	keyLike = lazyregexp.New(`(?i)\b(sk|pk|rk|gsk|xai|hf|ghp|key|token|bearer)[-_ ]+[-_a-z0-9*.]{8,}|AIza[-_A-Za-z0-9]{8,}`)
	// quoted matches from the place where a service begins to quote the request.
	quoted = lazyregexp.New(`(?is)([,\[({]?\s*['"]?\binput(_value)?['"]?\s*[=:]\s*['"{\[(]|\bgot:? ['"{\[]|\breceived:? ['"{\[]).*`)
)

// maxMessage is the maximum length of an Error.Message in characters.
const maxMessage = 300

// plainText returns the text of a body that is not JSON; for an HTML page, its title.
func plainText(body string) string {
	if m := title().FindStringSubmatch(body); m != nil {
		return strings.TrimSpace(m[1])
	}
	if t := strings.TrimSpace(body); strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[") {
		return ""
	}
	return strings.TrimSpace(tags().ReplaceAllString(body, " "))
}

// sanitize removes quotations and keys from a service's sentence and shortens it, so that
// it can be shown and logged.
func sanitize(s string) string {
	s = strings.ToValidUTF8(s, "")
	s = quoted().ReplaceAllString(s, " …")
	s = keyLike().ReplaceAllString(s, "<secret>")
	s = strings.TrimSpace(space().ReplaceAllString(s, " "))
	if utf8.RuneCountInString(s) <= maxMessage {
		return s
	}
	return string([]rune(s)[:maxMessage]) + "…"
}

const number = `([0-9][0-9,_]{2,11})`

// limits match the context length in a rejection, the most reliable first.
var limits = []func() *regexp.Regexp{
	lazyregexp.New(`\+ [0-9]+ > ` + number),
	lazyregexp.New(`max_model_len\D{0,20}` + number),
	lazyregexp.New(`maximum model length\D{0,20}` + number),
	lazyregexp.New(`(?:max|limit)\D{0,40}context (?:length|size|window)\D{0,12}` + number),
	lazyregexp.New(`context (?:length|size|window|limit)\b[^0-9]{0,20}` + number + `(?:\D|$)`),
	lazyregexp.New(number + `[ -]token (?:context|limit)`),
	lazyregexp.New(`> ` + number + `\D{0,3}(?:max|limit|token)`),
	lazyregexp.New(number + ` maximum`),
}

// parseLimit returns the context length that text names, or 0.
func parseLimit(text string) int {
	for _, r := range limits {
		if m := r().FindStringSubmatch(text); m != nil {
			if n := atoi(m[1]); n >= 1024 && n <= 10_000_000 {
				return n
			}
		}
	}
	return 0
}

func atoi(s string) int {
	n, err := strconv.Atoi(strings.NewReplacer(",", "", "_", "").Replace(s))
	if err != nil {
		return 0
	}
	return n
}

var (
	capRange  = lazyregexp.New(`range of max_tokens should be \[1, ?` + number + `\]`)
	capAvail  = lazyregexp.New(`available_tokens\D{0,4}` + number)
	capClaude = lazyregexp.New(`max_tokens: ?` + number + ` > ` + number + `, which is the maximum`)
	capOpenAI = lazyregexp.New(`supports at most ` + number + ` completion tokens`)
	sumClaude = lazyregexp.New("input length and `?max_tokens`? exceed context limit: " + number + ` \+ ` + number + ` > ` + number)
	sumRouter = lazyregexp.New(`maximum context length is ` + number + ` tokens.{0,60}requested about ` + number +
		` tokens \(` + number + ` of text input(?:, ([0-9]+) of tool input)?, ` + number + ` in the output\)`)
)

// parseOutputLimit returns the limit of output tokens that the model has for every request, or
// 0 if that was not the reason.
func parseOutputLimit(text string) int { return lastNumber(text, capRange, capClaude, capOpenAI) }

// lastNumber returns the last number of the first pattern that matches, or 0.
func lastNumber(text string, patterns ...func() *regexp.Regexp) int {
	for _, r := range patterns {
		if m := r().FindStringSubmatch(text); m != nil {
			if n := atoi(m[len(m)-1]); n > 0 {
				return n
			}
		}
	}
	return 0
}

// parseOutputCap returns the largest max_tokens that a rejected request could have had with
// its input, or 0 if that was not the reason. A request whose input alone fills more than nine
// tenths of the context is itself too long.
func parseOutputCap(text string) int {
	if n := lastNumber(text, capAvail); n > 0 {
		return n
	}
	input, limit := 0, 0
	if m := sumClaude().FindStringSubmatch(text); m != nil {
		input, limit = atoi(m[1]), atoi(m[3])
	}
	if m := sumRouter().FindStringSubmatch(text); m != nil {
		input, limit = atoi(m[3])+atoi(m[4]), atoi(m[1])
	}
	if limit == 0 || input > limit*9/10 {
		return 0
	}
	return limit - input
}

var tryIn = lazyregexp.New(`(?:try again|retry|retrydelay|resets?)[a-z ]{0,12}\b(?:in|after|":) ?"?((?:[0-9.]+ ?(?:ms|h|m|s)[a-z]{0,6} ?)+)`)

// parseAfter returns the delay that the service asked for, or 0.
func parseAfter(f ErrorResponse, info errorInfo) time.Duration {
	h := f.Header
	if d, ok := parseMillis(h.Get("Retry-After-Ms")); ok {
		return d
	}
	if d, ok := parseRetryAfter(h.Get("Retry-After"), f.At); ok {
		return d
	}
	if m := tryIn().FindStringSubmatch(info.text); m != nil {
		if d := parseSpan(m[1]); d > 0 {
			return d
		}
	}
	if statusOf(f, info) != http.StatusTooManyRequests {
		return 0
	}
	for _, v := range []string{h.Get("X-Ratelimit-Reset"), h.Get("Ratelimit-Reset"), info.reset} {
		if d, ok := parseReset(v, f.At); ok {
			return d
		}
	}
	var longest time.Duration
	for _, what := range []string{"Requests", "Tokens"} {
		if h.Get("X-Ratelimit-Remaining-"+what) == "0" {
			longest = max(longest, parseSpan(h.Get("X-Ratelimit-Reset-"+what)))
		}
	}
	return longest
}

func parseMillis(s string) (time.Duration, bool) {
	ms, err := strconv.ParseFloat(s, 64)
	if err != nil || ms < 0 || ms > 1e10 {
		return 0, false
	}
	return time.Duration(ms * float64(time.Millisecond)), true
}

func parseRetryAfter(s string, now time.Time) (time.Duration, bool) {
	if sec, err := strconv.ParseFloat(s, 64); err == nil {
		if sec < 0 || sec > 1e7 {
			return 0, false
		}
		return time.Duration(sec * float64(time.Second)), true
	}
	t, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	return max(0, t.Sub(now)), true
}

// parseReset parses a reset value: a duration, a number of seconds, or a time in seconds or
// milliseconds since 1970.
func parseReset(s string, now time.Time) (time.Duration, bool) {
	if d := parseSpan(s); d > 0 {
		return d, true
	}
	n, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || n < 0 || n > 1e14:
		return 0, false
	case n > 1e11:
		return max(0, time.UnixMilli(int64(n)).Sub(now)), true
	case n > 1e8:
		return max(0, time.Unix(int64(n), 0).Sub(now)), true
	}
	return time.Duration(n * float64(time.Second)), true
}

var unit = lazyregexp.New(`([0-9.]+) ?(ms|h|m|s)[a-z]* ?`)

// parseSpan parses durations such as "6m0s", "20 s", "120ms" and "1 hour". It returns 0 for
// invalid input.
func parseSpan(s string) time.Duration {
	var d time.Duration
	for _, m := range unit().FindAllStringSubmatch(s, -1) {
		v, err := time.ParseDuration(strings.Trim(m[1], ".") + m[2])
		if err != nil {
			return 0
		}
		d += v
	}
	return d
}
