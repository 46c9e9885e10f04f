package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/version"
	resource "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"koord-suite.io/kube-scheduler/socket"
)

const (
	name      = "KoordSuite"
	stateKey  = fwk.StateKey(name)
	away      = "node(s) that Mid pods need the scheduler plugin for, which does not answer"
	patience  = 30 * time.Second
	midCPU    = v1.ResourceName("kubernetes.io/mid-cpu")
	midMemory = v1.ResourceName("kubernetes.io/mid-memory")
)

var unasked = metrics.NewCounterVec(&metrics.CounterOpts{
	Subsystem: "koord_suite", Name: "unasked_pods_total", StabilityLevel: metrics.ALPHA,
	Help: "Attempts to schedule a pod without an answer: those that passed all nodes, and those held back.",
}, []string{"result"})

// process has the plugin of each profile. A pod counts for all of them from Reserve on.
type process struct{ plugins sync.Map }

func (p *process) has(profile string) bool {
	_, is := p.plugins.Load(profile)
	return is
}

func (p *process) notify(notice func(*socket.Client)) {
	p.plugins.Range(func(_, profile any) bool {
		notice(profile.(*plugin).client)
		return true
	})
}

type args struct {
	Socket         string `json:"socket"`
	DeadlineMillis int    `json:"deadlineMilliseconds"`
}

// plugin of one profile. It holds no rule: what a node gets is what Python has answered.
type plugin struct {
	process *process
	handle  handle
	client  *socket.Client

	mu      sync.Mutex
	waiting map[string]*v1.Pod // refused pods, tried again when Python comes or goes
}

var (
	_ enqueueExtensions = &plugin{}
	_ preFilterPlugin   = &plugin{}
	_ filterPlugin      = &plugin{}
	_ postFilterPlugin  = &plugin{}
	_ scorePlugin       = &plugin{}
	_ reservePlugin     = &plugin{}
)

func (all *process) newPlugin(ctx context.Context, object runtime.Object, h handle) (anyPlugin, error) {
	a := args{DeadlineMillis: 50}
	if err := frameworkruntime.DecodeInto(object, &a); err != nil {
		return nil, err
	}
	if a.Socket == "" {
		return nil, fmt.Errorf("%s: args.socket is missing; want the path of the scheduler plugin's socket", name)
	}
	profile, named := h.(interface{ ProfileName() string })
	if !named {
		return nil, fmt.Errorf("%s: kube-scheduler names no profile", name)
	}
	p := &plugin{process: all, handle: h, waiting: map[string]*v1.Pod{}}
	informer := h.SharedInformerFactory().Core().V1().Pods().Informer()
	shown := pods{all.has, informer.GetStore()}
	p.client = socket.New(socket.Options{
		Path: a.Socket, Profile: profile.ProfileName(), Minor: version.Get().Minor,
		Deadline: time.Duration(a.DeadlineMillis) * time.Millisecond, Patience: patience,
		All: shown.all, Show: shown.show, Wake: p.wake, Turned: func() { go p.wake(nil) },
		Log: func(err error, text string) { klog.FromContext(ctx).Error(err, name+": "+text) },
	})
	all.plugins.Store(profile.ProfileName(), p)
	registration, err := informer.AddEventHandler(shown.handler(p.changed))
	if err != nil {
		return nil, err
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) { // before, pods would seem to be gone
			p.client.Run(ctx)
		}
	}()
	return p, nil
}

func (p *plugin) Name() string { return name }

// EventsToRegister names none: Python follows all that its answers depend on, and wakes the pods that pass.
func (p *plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// cycle is the state of one attempt.
type cycle struct {
	answer  *socket.Answer
	refused []bool              // rows that this plugin alone has refused, also in dry runs; shared by clones
	removed map[string][]string // UIDs of the pods that a dry run has removed, by node
}

func (c *cycle) Clone() fwk.StateData {
	clone := *c
	clone.removed = maps.Clone(c.removed) // its slices never change
	return &clone
}

func cycleOf(state fwk.CycleState) *cycle {
	if data, err := state.Read(stateKey); err == nil {
		return data.(*cycle)
	}
	return nil
}

func (p *plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*preFilterResult, *fwk.Status) {
	if pod.Spec.NodeName != "" { // a resize without room: the pod has no other node, and counts there
		return nil, fwk.NewStatus(fwk.Skip)
	}
	answer, err := p.client.Ask(named(pod))
	if err != nil {
		if needsAnswer(pod) {
			unasked.WithLabelValues("held").Inc()
			p.remember(pod)
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, away)
		}
		unasked.WithLabelValues("passed").Inc()
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(stateKey, &cycle{answer, make([]bool, answer.Rows()), map[string][]string{}})
	if answer.PassesAll() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// needsAnswer states whether a pod waits while Python is away: one that requests Mid, if it does not keep a node alive.
func needsAnswer(pod *v1.Pod) bool {
	if pod.Spec.Priority != nil && *pod.Spec.Priority >= scheduling.SystemCriticalPriority {
		return false
	}
	for i := range pod.OwnerReferences {
		if kind := pod.OwnerReferences[i].Kind; kind == "DaemonSet" || kind == "Node" {
			return false
		}
	}
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	_, cpu := requests[midCPU]
	_, memory := requests[midMemory]
	return cpu || memory
}

func (p *plugin) PreFilterExtensions() preFilterExtensions { return p }

// AddPod forgets that a pod was removed. Other pods that it adds are nominated, and counted by Python.
func (p *plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, on fwk.NodeInfo) *fwk.Status {
	if c := cycleOf(state); c != nil {
		node, uid := on.Node().Name, string(added.GetPod().UID)
		c.removed[node] = slices.DeleteFunc(slices.Clone(c.removed[node]), func(removed string) bool { return removed == uid })
	}
	return nil
}

func (p *plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, on fwk.NodeInfo) *fwk.Status {
	if c := cycleOf(state); c != nil {
		node := on.Node().Name
		c.removed[node] = append(slices.Clip(c.removed[node]), string(removed.GetPod().UID))
	}
	return nil
}

func (p *plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, on fwk.NodeInfo) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return nil
	}
	node := on.Node().Name
	row, code := c.answer.Code(node)
	if code == 0 {
		return nil
	}
	reason, removed := c.answer.Reason(code, row), c.removed[node]
	if len(removed) > 0 && reason.Resolvable && row >= 0 {
		if left, err := p.client.Check(named(pod), row, removed); err == nil && left == 0 {
			return nil
		}
	} else if row >= 0 && row < len(c.refused) {
		c.refused[row] = true
	}
	if reason.Resolvable {
		return fwk.NewStatus(fwk.Unschedulable, reason.Text)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason.Text)
}

// PostFilter states which nodes this plugin alone refused. It evicts no pod, and comes behind the plugins that do: a pod
// for which they evict others is tried again when those are gone.
func (p *plugin) PostFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ nodeStatuses) (*postFilterResult, *fwk.Status) {
	if c := cycleOf(state); c != nil {
		p.remember(pod)
		p.client.Refused(named(pod), c.answer, c.refused)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (p *plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, on fwk.NodeInfo) (int64, *fwk.Status) {
	if c := cycleOf(state); c != nil {
		return c.answer.Score(on.Node().Name), nil
	}
	return 0, nil
}

func (p *plugin) ScoreExtensions() scoreExtensions { return nil }

func (p *plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.process.notify(func(client *socket.Client) { client.Reserve(named(pod), node) })
	return nil
}

func (p *plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.process.notify(func(client *socket.Client) { client.Unreserve(named(pod)) })
}

func (p *plugin) remember(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[string(pod.UID)] = pod
}

// changed shows a pod again. Once it has its node or is gone, it counts without a reservation, and waits no more.
func (p *plugin) changed(pod *v1.Pod, isGone bool) {
	isSettled := isGone || pod.Spec.NodeName != ""
	if isSettled {
		p.mu.Lock()
		delete(p.waiting, string(pod.UID))
		p.mu.Unlock()
	}
	p.client.Changed(named(pod), isSettled)
}

// wake has kube-scheduler try refused pods at once; nil is all of them.
func (p *plugin) wake(uids []string) {
	refused := make(map[string]*v1.Pod, len(uids))
	p.mu.Lock()
	if uids == nil {
		uids = slices.Collect(maps.Keys(p.waiting))
	}
	for _, uid := range uids {
		if pod := p.waiting[uid]; pod != nil {
			refused[named(pod)] = pod
		}
	}
	p.mu.Unlock()
	p.handle.Activate(klog.Background(), refused)
}
