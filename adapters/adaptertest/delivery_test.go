package adaptertest_test

import (
	"net/http"
	"testing"

	"go.uber.org/zap"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/console"
	"hermesd/adapters/httpapi"
	"hermesd/gateway/chat"
)

// The suite tries what is promised for the other platforms.
func TestOwnSurfacesDeliverAsPromised(t *testing.T) {
	api, err := httpapi.New(httpapi.Config{}, httpapi.Options{Log: zap.NewNop(), Key: "a-key-of-enough-length-for-a-test", Metrics: http.NotFoundHandler(), MetricsKey: "a-key-of-enough-length-for-metrics"})
	if err != nil {
		t.Fatal(err)
	}
	for platform, a := range map[chat.Platform]chat.Adapter{chat.Console: console.New(console.Options{}), chat.HTTP: api} {
		d := adaptertest.PromisedFor(t, platform)
		if _, finds := a.(chat.Finder); a.Capabilities().CanFind != d.Lookup || finds != d.Lookup {
			t.Errorf("%s can be asked: %v, promised is %v", platform, a.Capabilities().CanFind, d.Lookup)
		}
	}
}
