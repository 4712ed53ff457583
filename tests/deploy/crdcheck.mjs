// Checks custom resources against the schemas of their CRDs, which kubernetes-validate does not have. Usage: node crdcheck.mjs FILE.json
// (an array of objects), as a copy beside the node_modules of package.json. Exit code 1 when any is wrong; one line for each object.
import fs from 'fs';

const modules = {
  'monitoring.coreos.com/v1': '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1',
  'keda.sh/v1alpha1': '@kubernetes-models/keda/keda.sh/v1alpha1',
};
let bad = 0;
for (const object of JSON.parse(fs.readFileSync(process.argv[2]))) {
  const module = modules[object.apiVersion];
  if (!module) continue;
  const name = `${object.kind} ${object.metadata.name}`;
  try {
    const kinds = await import(`${module}/${object.kind}`);
    new kinds[object.kind](object).validate();
    console.log(`ok ${name}`);
  } catch (error) {
    bad += 1;
    console.log(`BAD ${name}: ${error.message.slice(0, 300)}`);
  }
}
process.exit(bad ? 1 : 0);
