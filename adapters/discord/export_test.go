package discord

// Hold makes memory hold only so many events that wait for the sink.
func (a *Adapter) Hold(events int) { a.max = events }
