package httpapi

import (
	"net/http"
	"time"

	"hermesd/adapters/httpapi/internal/openaiapi"
	"hermesd/gateway/chat"
)

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(openaiapi.Encode(v)) // the client may have disconnected
}

// healthz handles GET /healthz: it answers 200 while the process runs.
func (a *Adapter) healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

// proof is the state of one connection, without names and reasons.
type proof struct {
	State chat.State `json:"state"`
	// Age is the number of seconds since the platform last showed that the
	// connection works; absent if it never did.
	Age *float64 `json:"last_contact_age_seconds,omitempty"`
}

// readyz handles GET /readyz: it reports whether messages are answered now.
func (a *Adapter) readyz(w http.ResponseWriter, _ *http.Request) {
	v := struct {
		Ready    bool             `json:"ready"`
		Why      string           `json:"reason,omitempty"`
		Accounts map[string]proof `json:"accounts,omitempty"`
	}{Ready: true, Accounts: map[string]proof{}}
	if a.o.Ready != nil {
		v.Ready, v.Why = a.o.Ready()
	}
	if a.stopped() {
		v.Ready, v.Why = false, "the daemon stops"
	}
	if a.o.Accounts != nil {
		for account, h := range a.o.Accounts() {
			p := proof{State: h.State}
			if !h.LastContact.IsZero() {
				age := time.Since(h.LastContact).Round(time.Millisecond).Seconds()
				p.Age = &age
			}
			name := string(account.Platform)
			if account.Name != "" {
				name += "/" + account.Name
			}
			v.Accounts[name] = p
		}
	}
	status := http.StatusOK
	if !v.Ready {
		status = http.StatusServiceUnavailable
	}
	answer(w, status, v)
}

func (a *Adapter) stopped() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

// described is OpenAI's model object.
type described struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
}

func (a *Adapter) describe(name string) described {
	return described{ID: name, Object: "model", Created: a.began, Owner: "hermesd"}
}

// models handles GET /v1/models.
func (a *Adapter) models(w http.ResponseWriter, _ *http.Request) {
	v := struct {
		Object string      `json:"object"`
		Data   []described `json:"data"`
	}{Object: "list"}
	for _, n := range a.names() {
		v.Data = append(v.Data, a.describe(n))
	}
	answer(w, http.StatusOK, v)
}

// model handles GET /v1/models/NAME.
func (a *Adapter) model(w http.ResponseWriter, r *http.Request) {
	for _, n := range a.names() {
		if n == r.PathValue("id") {
			answer(w, http.StatusOK, a.describe(n))
			return
		}
	}
	noModel(r.PathValue("id")).Write(w)
}
