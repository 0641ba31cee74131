package memory

import (
	"slices"
	"time"

	"hermesd/gateway/store"
)

// A Status says how the provider is used, for `memory status`.
type Status struct {
	Provider string `json:"provider"` // "": none
	Mode     string `json:"mode"`
	Place    string `json:"place"`
	Identity string `json:"identity"` // of the owner; see provider.About.Owner
	Version  string `json:"version"`  // see provider.Health, also Detail
	Detail   string `json:"detail"`
	// Earlier are identities that owners had before they were owners: what they said then
	// stays there.
	Earlier []string     `json:"earlier_identities,omitempty"`
	Up      bool         `json:"up"`
	Breaker string       `json:"breaker"` // closed, open or half-open
	Recall  RecallStatus `json:"recall"`
	Sync    SyncStatus   `json:"sync"`
	Queue   QueueStatus  `json:"queue"`
}

// A RecallStatus is the part of a Status about recalls. The percentiles are those of the
// last 100.
type RecallStatus struct {
	LastOK    time.Time `json:"last_ok,omitzero"`
	LastError string    `json:"last_error"` // with its time; "" if there was none since the start
	P50       int64     `json:"p50_ms"`
	P95       int64     `json:"p95_ms"`
	Late      int       `json:"late"`
}

// A SyncStatus is the part of a Status about what the provider was told.
type SyncStatus struct {
	LastOK    time.Time `json:"last_ok,omitzero"`
	LastError string    `json:"last_error"`
}

// A QueueStatus is the part of a Status about the queue.
type QueueStatus struct {
	Waiting int   `json:"waiting"`
	Oldest  int64 `json:"oldest_s"` // age of the oldest that waits; ends of conversations wait 30 minutes
	Aside   int   `json:"aside"`
}

// stats are the figures of a Status.
type stats struct {
	recallOK, syncOK       time.Time
	recallError, syncError string
	times                  []time.Duration // of the last recalls, a ring
	next                   int
	late                   int
}

const maxTimes = 100

func (s *stats) took(d time.Duration) {
	if len(s.times) < maxTimes {
		s.times = append(s.times, d)
		return
	}
	s.times[s.next] = d
	s.next = (s.next + 1) % maxTimes
}

// note notes the result of a call.
func (s *stats) note(side string, at time.Time, err error) {
	text := ""
	if err != nil {
		text = at.UTC().Format(time.RFC3339) + " " + err.Error()
	}
	switch {
	case side == reads && err == nil:
		s.recallOK = at
	case side == reads || side == checks && err != nil:
		s.recallError = text
	case err == nil && side == writes:
		s.syncOK = at
	case err != nil && side == writes:
		s.syncError = text
	}
}

// percentile returns the p-th percentile of the times in milliseconds.
func (s *stats) percentile(p int) int64 {
	if len(s.times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.times))
	return sorted[(len(sorted)*p+99)/100-1].Milliseconds()
}

// Status returns the state of the Service. It calls nobody.
func (s *Service) Status() Status {
	if s != nil && s.unusable != nil {
		return Status{Provider: s.about().Name, Breaker: "open", Recall: RecallStatus{LastError: s.unusable.Error()}}
	}
	if s.off() {
		return Status{Breaker: "closed"}
	}
	counts, earlier := s.parts.Store.EventCounts(Queue), s.earlierIdentities()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	state := s.breaker.state(now)
	if state == "closed" {
		state = s.recalling.state(now)
	}
	return Status{
		Provider: s.about().Name, Mode: s.about().Mode, Place: s.about().Place, Identity: s.about().Owner, Earlier: earlier,
		Version: s.health.Version, Detail: s.health.Detail,
		Up:      len(s.failing) == 0,
		Breaker: state,
		Recall:  RecallStatus{s.stats.recallOK, s.stats.recallError, s.stats.percentile(50), s.stats.percentile(95), s.stats.late},
		Sync:    SyncStatus{s.stats.syncOK, s.stats.syncError},
		Queue:   queueStatus(counts),
	}
}

func queueStatus(c store.EventCounts) QueueStatus {
	q := QueueStatus{Waiting: c.Waiting, Aside: c.Aside}
	if !c.Oldest.IsZero() {
		q.Oldest = int64(time.Since(c.Oldest) / time.Second)
	}
	return q
}
