package hindsight_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/internal/sim/memory/hindsight"
	"hermesd/internal/sim/memory/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const bank = "/v1/default/banks/hermes"

func newServer(t *testing.T, o hindsight.Options) (*hindsight.Server, simtest.Caller) {
	t.Helper()
	s := hindsight.New(o)
	t.Cleanup(s.Close)
	return s, simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"Authorization": "Bearer k"}}
}

func recall(c simtest.Caller, in string) string {
	c.T.Helper()
	return c.Call(200, "POST", bank+"/memories/recall", in).Field("results", 0, "text")
}

func TestObservationsComeAfterConsolidation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newServer(t, hindsight.Options{})
		id := c.Call(200, "POST", bank+"/memories", `{"items":[{"content":"My tea is green.","metadata":{"turn":"1"}}],"async":true}`).Field("operation_id")
		status := func() string { return c.Call(200, "GET", bank+"/operations/"+id, "").Field("status") }
		if got := status(); got != "pending" {
			t.Errorf("status %s", got)
		}
		time.Sleep(3 * time.Second)
		if got := status(); got != "completed" {
			t.Errorf("status %s", got)
		}
		if got := recall(c, `{"query":"tea","types":["world"]}`); got != "My tea is green." {
			t.Errorf("recalled %q", got)
		}
		if got := recall(c, `{"query":"tea","types":["observation"]}`); got != "" {
			t.Errorf("observed at once: %q", got)
		}
		time.Sleep(10 * time.Second)
		if got := recall(c, `{"query":"tea","types":["observation"],"budget":"mid","max_tokens":4096}`); got != "My tea is green." {
			t.Errorf("recalled %q", got)
		}
		if got := c.Call(200, "POST", "/v1/default/banks/other/memories/recall", `{"query":"tea","types":["world"]}`).Field("results", 0, "text"); got != "" {
			t.Errorf("recalled in another bank: %q", got)
		}
		if got := c.Call(200, "POST", bank+"/reflect", `{"query":"tea"}`).Field("text"); got != "My tea is green." {
			t.Errorf("reflection %q", got)
		}
	})
}

func TestRepetitions(t *testing.T) {
	const operation = "11111111-2222-4333-8444-555555555555"
	for _, test := range []struct {
		name, version, in string
		documents         int
		text              string
	}{
		{"without a document", "", `{"items":[{"content":"tea"}]}`, 2, "tea"},
		{"document replaced", "", `{"items":[{"content":"tea","document_id":"d"}]}`, 1, "tea"},
		{"document appended", "", `{"items":[{"content":"tea","document_id":"d","update_mode":"append"}]}`, 1, "tea\ntea"},
		{"append of an old server", "0.4.9", `{"items":[{"content":"tea","document_id":"d","update_mode":"append"}]}`, 1, "tea"},
		{"operation", "", `{"items":[{"content":"tea","document_id":"d","update_mode":"append"}],"async":true,"operation_id":"` + operation + `"}`, 1, "tea"},
		{"operation of an old server", "0.8.5", `{"items":[{"content":"tea"}],"async":true,"operation_id":"` + operation + `"}`, 2, "tea"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := newServer(t, hindsight.Options{Version: test.version})
				c.Call(200, "POST", bank+"/memories", test.in)
				c.Call(200, "POST", bank+"/memories", test.in)
				time.Sleep(time.Minute)
				if got := s.Documents("hermes"); len(got) != test.documents || got[0].Text != test.text {
					t.Errorf("documents %+v", got)
				}
			})
		})
	}
}

func TestOperationsFailAndAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(t, hindsight.Options{})
		s.FailOperations(1)
		id := c.Call(200, "POST", bank+"/memories", `{"items":[{"content":"tea"}],"async":true}`).Field("operation_id")
		c.Call(409, "POST", bank+"/operations/"+id+"/retry", "")
		time.Sleep(3 * time.Second)
		if got := c.Call(200, "GET", bank+"/operations/"+id, ""); got.Field("status") != "failed" || got.Field("error_message") == "" || len(s.Documents("hermes")) != 0 {
			t.Errorf("%s", got.Text)
		}
		if got := c.Call(200, "GET", bank+"/operations?status=failed", "").Field("total"); got != "1" {
			t.Errorf("%s failed", got)
		}
		c.Call(200, "POST", bank+"/operations/"+id+"/retry", "")
		c.Call(200, "DELETE", bank+"/operations/"+id, "")
		if got := c.Call(200, "GET", bank+"/operations/"+id, "").Field("status"); got != "cancelled" {
			t.Errorf("status %s", got)
		}
		c.Call(200, "POST", bank+"/operations/"+id+"/retry", "")
		time.Sleep(3 * time.Second)
		if n := len(s.Documents("hermes")); n != 1 {
			t.Errorf("%d documents", n)
		}
		c.Call(409, "DELETE", bank+"/operations/"+id, "")
		if got := c.Call(200, "GET", bank+"/operations/other", "").Field("status"); got != "not_found" {
			t.Errorf("status %s", got)
		}
	})
}

func TestTags(t *testing.T) {
	_, c := newServer(t, hindsight.Options{})
	c.Call(200, "POST", bank+"/memories", `{"items":[{"content":"tea of two","tags":["a","b"]}]}`)
	c.Call(200, "POST", bank+"/memories", `{"items":[{"content":"tea of none"}]}`)
	for in, want := range map[string]string{
		`"tags":["a"]`:                                   "tea of two|tea of none",
		`"tags":["a"],"tags_match":"any_strict"`:         "tea of two",
		`"tags":["a","c"],"tags_match":"all"`:            "tea of none",
		`"tags":["a","b"],"tags_match":"all_strict"`:     "tea of two",
		`"tags":["a"],"tags_match":"exact"`:              "",
		`"tags":["a","b"],"tags_match":"exact"`:          "tea of two",
		`"tags":[]`:                                      "tea of two|tea of none",
		`"tags":["a"],"max_tokens":3,"tags_match":"any"`: "tea of two",
	} {
		a := c.Call(200, "POST", bank+"/memories/recall", `{"query":"tea","types":["world"],`+in+`}`)
		got := strings.TrimSuffix(a.Field("results", 0, "text")+"|"+a.Field("results", 1, "text"), "|")
		if strings.Trim(got, "|") != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestDocumentsAndRefusals(t *testing.T) {
	_, c := newServer(t, hindsight.Options{Keys: []string{"k"}})
	c.Call(200, "PUT", bank, `{"retain_mission":"facts"}`)
	c.Call(200, "POST", bank+"/memories", `{"items":[{"content":"tea","document_id":"d"}]}`)
	if got := c.Call(200, "GET", bank+"/documents/d", ""); got.Field("original_text") != "tea" {
		t.Errorf("%s", got.Text)
	}
	c.Call(200, "DELETE", bank+"/documents/d", "")
	c.Call(404, "GET", bank+"/documents/d", "")
	c.Call(200, "POST", bank+"/memories", `{"items":[{"content":"tea","document_id":"ab"},{"content":"tea","document_id":"abc"},{"content":"tea","document_id":"x"}]}`)
	if got := c.Call(200, "GET", bank+"/documents?q=AB&limit=1&offset=1", ""); got.Field("items", 0, "id") != "abc" || got.Field("total") != "2" {
		t.Errorf("%s", got.Text)
	}
	c.Call(200, "DELETE", bank, "")
	if got := c.Call(200, "GET", bank+"/documents", ""); got.Field("total") != "0" {
		t.Errorf("%s", got.Text)
	}
	c.Call(422, "POST", bank+"/memories", `{"items":[{"content":"tea","metadata":{"n":1}}]}`)
	c.Call(422, "POST", bank+"/memories", `{"items":[]}`)
	c.Call(400, "POST", bank+"/memories", `{"items":[{"content":"a","strategy":"x"},{"content":"b","strategy":"y"}]}`)
	c.Call(422, "POST", bank+"/memories/recall", `{"query":"tea","budget":"huge"}`)
	const operation = `"async":true,"operation_id":"11111111-2222-4333-8444-555555555555"`
	c.Call(200, "POST", bank+"/memories", `{"items":[{"content":"tea"}],`+operation+`}`)
	c.Call(409, "POST", "/v1/default/banks/other/memories", `{"items":[{"content":"tea"}],`+operation+`}`)
	c = c.With("Authorization", "Bearer other")
	c.Call(401, "POST", bank+"/memories", `{}`)
	if got := c.Call(200, "GET", "/version", "").Field("api_version"); got != "0.9.1" {
		t.Errorf("version %s", got)
	}
}
