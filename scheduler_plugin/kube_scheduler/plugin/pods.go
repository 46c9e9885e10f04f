package main

import (
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

const domain = "koordinator.sh/" // of the labels and annotations that are read

// shown encodes the fields of a pod that are read, with the keys of a Pod.
func shown(pod *v1.Pod) []byte {
	to := v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID,
			Labels: ofDomain(pod.Labels), Annotations: ofDomain(pod.Annotations),
		},
		Spec: v1.PodSpec{
			Containers: containers(pod.Spec.Containers), InitContainers: containers(pod.Spec.InitContainers),
			Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources,
			NodeName: pod.Spec.NodeName, Priority: pod.Spec.Priority,
		},
		Status: v1.PodStatus{Phase: pod.Status.Phase, NominatedNodeName: pod.Status.NominatedNodeName},
	}
	for i := range pod.OwnerReferences {
		to.OwnerReferences = append(to.OwnerReferences, metav1.OwnerReference{Kind: pod.OwnerReferences[i].Kind})
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled || c.Type == v1.PodInitialized {
			since := v1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}
			to.Status.Conditions = append(to.Status.Conditions, since)
		}
	}
	encoded, _ := json.Marshal(&to) // it has no value without JSON
	return encoded
}

// signed is what is shown of a pod, and equal for pods with equal answers.
func signed(pod *v1.Pod) string {
	nameless := *pod
	nameless.Name, nameless.UID, nameless.Status = "", "", v1.PodStatus{}
	return string(shown(&nameless))
}

func containers(from []v1.Container) []v1.Container {
	to := make([]v1.Container, len(from))
	for i := range from {
		to[i].RestartPolicy, to[i].Resources.Requests = from[i].RestartPolicy, from[i].Resources.Requests
		to[i].Resources.Limits = from[i].Resources.Limits
	}
	return to
}

func ofDomain(all map[string]string) map[string]string {
	var to map[string]string
	for key, value := range all {
		if strings.Contains(key, domain) {
			if to == nil {
				to = map[string]string{}
			}
			to[key] = value
		}
	}
	return to
}

// pods are those of kube-scheduler's informer that are shown: those with a node, and those of the profiles.
type pods struct {
	isOurs func(profile string) bool
	store  cache.Store
}

// named is what names a pod for the client.
func named(pod *v1.Pod) string { return string(pod.UID) + " " + pod.Namespace + "/" + pod.Name }

func (p *pods) has(pod *v1.Pod) bool {
	return pod.Spec.NodeName != "" || p.isOurs(pod.Spec.SchedulerName)
}

func (p *pods) all() (all []string) {
	for _, object := range p.store.List() {
		if pod := object.(*v1.Pod); p.has(pod) {
			all = append(all, named(pod))
		}
	}
	return all
}

func (p *pods) show(name string) []byte {
	uid, key, _ := strings.Cut(name, " ")
	object, exists, err := p.store.GetByKey(key)
	if err != nil || !exists || string(object.(*v1.Pod).UID) != uid || !p.has(object.(*v1.Pod)) {
		return nil
	}
	return shown(object.(*v1.Pod))
}

// handler calls changed where a pod changes; the client shows it where what is shown of it differs.
func (p *pods) handler(changed func(pod *v1.Pod, isGone bool)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if pod := object.(*v1.Pod); p.has(pod) {
				changed(pod, false)
			}
		},
		UpdateFunc: func(old, object any) {
			before, after := old.(*v1.Pod), object.(*v1.Pod)
			if named(before) != named(after) {
				changed(before, true)
			}
			if p.has(after) {
				changed(after, false)
			}
		},
		DeleteFunc: func(object any) {
			if last, is := object.(cache.DeletedFinalStateUnknown); is {
				object = last.Obj
			}
			changed(object.(*v1.Pod), true)
		},
	}
}
