package httpapi_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/httpapi"
	"hermesd/gateway/chat"
)

func TestBadRequestsAreToldWhatIsWrong(t *testing.T) {
	msgs := `"messages":[{"role":"user","content":"hi"}]`
	cases := map[string]struct {
		body   string
		status int
		code   string
		param  string
	}{
		"empty":             {``, 400, "invalid_json", ""},
		"no JSON":           {`hello`, 400, "invalid_json", ""},
		"null":              {`null`, 400, "invalid_json", ""},
		"a list":            {`[]`, 400, "invalid_json", ""},
		"two objects":       {`{} {}`, 400, "invalid_json", ""},
		"no messages":       {`{"model":"hermes"}`, 400, "missing_required_parameter", "messages"},
		"messages null":     {`{"messages":null}`, 400, "invalid_type", "messages"},
		"messages empty":    {`{"messages":[]}`, 400, "invalid_type", "messages"},
		"messages a string": {`{"messages":"hi"}`, 400, "invalid_type", "messages"},
		"role unknown":      {`{"messages":[{"role":"robot","content":"x"}]}`, 400, "invalid_value", "messages[0].role"},
		"content a number":  {`{"messages":[{"role":"user","content":7}]}`, 400, "invalid_type", "messages[0].content"},
		"audio":             {`{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]}`, 400, "unsupported_content", "messages[0].content[0]"},
		"only a system":     {`{"messages":[{"role":"system","content":"x"}]}`, 400, "no_user_message", "messages"},
		"ends with us":      {`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}`, 400, "no_user_message", "messages"},
		"blank":             {`{"messages":[{"role":"user","content":"  "}]}`, 400, "empty_message", "messages"},
		"model a number":    {`{"model":7,` + msgs + `}`, 400, "invalid_type", "model"},
		"model unknown":     {`{"model":"gpt-5",` + msgs + `}`, 404, "model_not_found", "model"},
		"stream a string":   {`{"stream":"yes",` + msgs + `}`, 400, "invalid_type", "stream"},
		"n":                 {`{"n":2,` + msgs + `}`, 400, "unsupported_parameter", "n"},
		"tools":             {`{"tools":[{"type":"function"}],` + msgs + `}`, 400, "unsupported_parameter", "tools"},
		"functions":         {`{"functions":[{}],` + msgs + `}`, 400, "unsupported_parameter", "functions"},
		"json_schema":       {`{"response_format":{"type":"json_schema"},` + msgs + `}`, 400, "unsupported_parameter", "response_format"},
		"logprobs":          {`{"logprobs":true,` + msgs + `}`, 400, "unsupported_parameter", "logprobs"},
		"stop":              {`{"stop":["x"],` + msgs + `}`, 400, "unsupported_parameter", "stop"},
		"a picture by web":  {`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}]}]}`, 400, "invalid_image", "messages"},
		"a picture of none": {`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]}`, 400, "invalid_image", "messages"},
		"damaged base64":    {`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,***"}}]}]}`, 400, "invalid_image", "messages"},
		"too large":         {`{"x":"` + strings.Repeat("y", 3000) + `"}`, 413, "request_too_large", ""},
	}
	d := start(t, func(c *httpapi.Config, _ *httpapi.Options) { c.MaxBody = 2048 })
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := d.do(ask(t, c.body))
			param := ""
			if a.Error != nil && a.Error.Param != nil {
				param = *a.Error.Param
			}
			if a.status != c.status || a.code() != c.code || param != c.param || a.Error.Message == "" || a.Error.Type != "invalid_request_error" {
				t.Errorf("got %d %s", a.status, a.body)
			}
		})
	}
	if n := len(d.taken()); n != 0 {
		t.Errorf("%d of them were taken", n)
	}
}

func TestHeadersThatCannotBe(t *testing.T) {
	d := start(t, nil)
	for name, c := range map[string]struct {
		header, value, code string
		status              int
	}{
		"no key":           {"Authorization", "", "invalid_api_key", 401},
		"wrong key":        {"Authorization", "Bearer hk-0123456789abcdefghiX", "invalid_api_key", 401},
		"wrong scheme":     {"Authorization", "Basic " + key, "invalid_api_key", 401},
		"key with more":    {"Authorization", "Bearer " + key + "x", "invalid_api_key", 401},
		"session with /":   {"X-Hermes-Session", "../x", "invalid_session", 400},
		"session empty":    {"X-Hermes-Session", "", "invalid_session", 400},
		"session too long": {"X-Hermes-Session", strings.Repeat("x", 65), "invalid_session", 400},
		"empty idem key":   {"Idempotency-Key", "", "invalid_idempotency_key", 400},
		"long idem key":    {"Idempotency-Key", strings.Repeat("x", 256), "invalid_idempotency_key", 400},
	} {
		r := ask(t, user("hi"))
		r.Header[c.header] = []string{c.value}
		a := d.do(r)
		if a.status != c.status || a.code() != c.code {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if c.status == 401 && a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no challenge", name)
		}
	}
	for _, path := range []string{"/v1/models", "/v1/models/hermes", "/v1/unknown"} {
		r := request(t, "GET", path, "")
		r.Header.Del("Authorization")
		if a := d.do(r); a.status != 401 {
			t.Errorf("%s without key: %d", path, a.status)
		}
	}
	if a := d.do(request(t, "GET", "/v1/chat/completions", "")); a.status != 405 || a.code() != "method_not_allowed" {
		t.Errorf("GET: %d %s", a.status, a.body)
	}
	if a := d.do(request(t, "GET", "/v1/embeddings", "")); a.status != 404 || a.code() != "unknown_url" {
		t.Errorf("embeddings: %d %s", a.status, a.body)
	}
	if n := len(d.taken()); n != 0 {
		t.Errorf("%d were taken", n)
	}
}

func TestHostileHostsAndPages(t *testing.T) {
	d := start(t, func(c *httpapi.Config, _ *httpapi.Options) {
		c.Hosts, c.Origins = []string{"pi.lan"}, []string{"http://localhost:3000"}
	})
	for name, c := range map[string]struct {
		host, origin string
		status       int
	}{
		"by address":         {"127.0.0.1:8642", "", 200},
		"by name":            {"localhost", "", 200},
		"by name, dotted":    {"LOCALHOST.:8642", "", 200},
		"by IPv6":            {"[::1]:8642", "", 200},
		"another loopback":   {"127.3.4.5", "", 200},
		"listed":             {"pi.lan:8642", "", 200},
		"rebound":            {"evil.example", "", 421},
		"rebound, dressed":   {"127.0.0.1.evil.example", "", 421},
		"rebound, localhost": {"localhost.evil.example:8642", "", 421},
		"a private address":  {"192.168.1.5:8642", "", 421},
		"everywhere":         {"0.0.0.0:8642", "", 421},
		"page":               {"127.0.0.1:8642", "https://evil.example", 403},
		"sandboxed page":     {"127.0.0.1:8642", "null", 403},
		"our own page":       {"127.0.0.1:8642", "http://127.0.0.1:8642", 403},
		"listed page":        {"127.0.0.1:8642", "http://localhost:3000", 200},
		"nearly listed":      {"127.0.0.1:8642", "http://localhost:30001", 403},
	} {
		for _, path := range []string{"/v1/models", "/healthz", "/readyz"} {
			r := request(t, "GET", path, "")
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			a := d.do(r)
			if a.status != c.status {
				t.Errorf("%s: %s answers %d %s", name, path, a.status, a.body)
			}
			if allowed := a.header.Get("Access-Control-Allow-Origin"); (allowed != "") != (c.origin != "" && c.status == 200) || allowed == "*" {
				t.Errorf("%s: allows %q", name, allowed)
			}
		}
	}
	r := request(t, "OPTIONS", "/v1/chat/completions", "")
	r.Header.Del("Authorization")
	r.Header.Set("Origin", "http://localhost:3000")
	a := d.do(r)
	if a.status != 204 || !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: %d %v", a.status, a.header)
	}
	r.Header.Set("Origin", "http://evil.example")
	if a := d.do(r); a.status != 403 {
		t.Errorf("preflight of a foreign page: %d", a.status)
	}
}

func TestSlowSendersAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, nil)
		for name, sent := range map[string]string{
			"headers": "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
			"body":    "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + key + "\r\nContent-Length: 100\r\n\r\n{",
		} {
			began := time.Now()
			c, err := d.web.Transport.(*http.Transport).DialContext(t.Context(), "tcp", "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte(sent)); err != nil {
				t.Fatal(err)
			}
			said := make([]byte, 4096)
			n, _ := c.Read(said) // an answer or the end
			if took := time.Since(began); took > 61*time.Second {
				t.Errorf("%s: held for %v", name, took)
			}
			if name == "body" && !strings.Contains(string(said[:n]), " 408 ") {
				t.Errorf("%s: %q", name, said[:n])
			}
			_ = c.Close()
		}
	})
}

func TestTooManyAtOnceAreToldToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, func(c *httpapi.Config, _ *httpapi.Options) { c.MaxConcurrent = 2 })
		one, two := d.later(ask(t, user("one"))), d.later(ask(t, user("two")))
		synctest.Wait()
		a := d.do(ask(t, user("three")))
		if a.status != 429 || a.header.Get("Retry-After") == "" || a.Error.Type != "rate_limit_error" {
			t.Errorf("got %d %s", a.status, a.body)
		}
		d.answers(d.echo)
		d.echo(d.taken()[0])
		<-one
		<-two
		if a := d.do(ask(t, user("four"))); a.text() != "you said: four" {
			t.Errorf("after them: %d %s", a.status, a.body)
		}
	})
}

func TestASocketThatIsTakenIsTheOperators(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := options(key, nil, zap.NewNop())
	o.Listen = nil
	a, err := httpapi.New(httpapi.Config{Listen: l.Addr().String()}, o)
	if err != nil {
		t.Fatal(err)
	}
	var ce *chat.ConfigError
	if err := a.Run(t.Context(), nil); !errors.As(err, &ce) || !strings.Contains(ce.Reason, l.Addr().String()) || !strings.Contains(ce.Reason, "platforms.http.listen") {
		t.Errorf("got %v", err)
	}
	if h := a.Health(); h.State != chat.Failed || h.Error == "" {
		t.Errorf("health %+v", h)
	}
}

func TestSettingsThatCannotWork(t *testing.T) {
	for want, c := range map[string]httpapi.Config{
		"listen: ":         {Listen: "8642"},
		"listen: others":   {Listen: "0.0.0.0:8642"},
		"hosts: ":          {Hosts: []string{"http://pi.lan"}},
		"origins: ":        {Origins: []string{"localhost:3000"}},
		"max_body: ":       {MaxBody: 7},
		"max_concurrent: ": {MaxConcurrent: 5000},
		"models: ":         {Models: []string{" "}},
	} {
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
		var ce *chat.ConfigError
		if _, err := httpapi.New(c, options(key, nil, zap.NewNop())); !errors.As(err, &ce) {
			t.Errorf("%s: New says %v", want, err)
		}
	}
	for _, c := range []httpapi.Config{{}, {Listen: "0.0.0.0:1", Hosts: []string{"pi.lan"}}, {Listen: "[::1]:0"}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := httpapi.New(httpapi.Config{}, options("", nil, zap.NewNop())); err == nil {
		t.Error("it starts without a key")
	}
}

func TestMetricsHaveAKeyOfTheirOwn(t *testing.T) {
	d := start(t, nil)
	get := func(path, key string, change func(*http.Request)) answer {
		r := request(t, "GET", path, "")
		r.Header.Set("Authorization", "Bearer "+key)
		if change != nil {
			change(r)
		}
		return d.do(r)
	}
	for k, status := range map[string]int{scrape: 200, key: 200, "": 401, scrape + "x": 401, "hk-0123456789abcdefghiX": 401} {
		if a := get("/metrics", k, nil); a.status != status || (status == 200) != (a.body == "up 1\n") {
			t.Errorf("with %q: %d %s", k, a.status, a.body)
		}
	}
	if a := get("/v1/models", scrape, nil); a.status != 401 {
		t.Errorf("the key of the metrics opens the API: %d", a.status)
	}
	if a := get("/metrics", scrape, func(r *http.Request) { r.Host = "evil.example" }); a.status != 421 {
		t.Errorf("under a foreign name: %d", a.status)
	}
	if a := get("/metrics", scrape, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); a.status != 403 {
		t.Errorf("from a web page: %d", a.status)
	}
	o := options(key, nil, zap.NewNop())
	o.MetricsKey = "short"
	if _, err := httpapi.New(httpapi.Config{}, o); err == nil {
		t.Error("a short key is taken")
	}
}

func TestAKeyIsMadeOnceAndKeptToItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "http.key")
	key, created, err := httpapi.LoadKey(path)
	if err != nil || !created || len(key.Reveal()) < 40 {
		t.Fatalf("%d characters, created %v, %v", len(key.Reveal()), created, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	again, created, err := httpapi.LoadKey(path)
	if err != nil || created || again != key {
		t.Errorf("again: the same %v, created %v, %v", again == key, created, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("files: %v", left)
	}
	if strings.Contains(fmt.Sprint(key), key.Reveal()) {
		t.Error("the key prints itself")
	}
}

func TestAKeyThatCannotBeTrustedIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"readable by others": {"hk-0123456789abcdefghij", 0o644, "chmod 600"},
		"readable by group":  {"hk-0123456789abcdefghij", 0o640, "chmod 600"},
		"empty":              {"", 0o600, "remove it"},
		"short":              {"hunter2", 0o600, "remove it"},
		"two lines":          {"hk-0123456789abcdefghij\nmore", 0o600, "remove it"},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "_"))
		if err := os.WriteFile(path, []byte(c.content), c.mode); err != nil {
			t.Fatal(err)
		}
		key, created, err := httpapi.LoadKey(path)
		if err == nil || created || key != "" || !strings.Contains(err.Error(), c.want) || c.content != "" && strings.Contains(err.Error(), c.content) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := httpapi.LoadKey(dir); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a directory: %v", err)
	}
	if _, _, err := httpapi.LoadKey(filepath.Join(dir, "no", "where")); err == nil {
		t.Error("a directory that is missing")
	}
}
